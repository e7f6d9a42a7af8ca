# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""src/emlio/plan/PLAN.md in Python, written from the page and not from the C++ code."""

import bisect
import itertools
import struct
from typing import Any

MASK, GAMMA = 2**64 - 1, 0x9E3779B97F4A7C15
M1, M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * M1) & MASK
    z = ((z ^ (z >> 27)) * M2) & MASK
    return z ^ (z >> 31)


def round_keys(seed: int, epoch: int) -> list[int]:
    state = mix((mix((seed + GAMMA) & MASK) + epoch + GAMMA) & MASK)
    return [mix((state + (i + 1) * GAMMA) & MASK) for i in range(8)]


def top(z: int, bits: int) -> int:
    z = (z * M1) & MASK
    return (((z ^ (z >> 32)) * M2) & MASK) >> (64 - bits)


def permute(seed: int, epoch: int, n: int, p: int) -> int:
    k, key = max(6, (n - 1).bit_length()), round_keys(seed, epoch)
    lo, hi = (k + 1) // 2, k // 2
    while True:
        left, right = p >> lo, p % 2**lo
        for i in range(0, 8, 2):
            left ^= top(right ^ key[i], hi)
            right ^= top(left ^ key[i + 1], lo)
        p = left * 2**lo + right
        if p < n:
            return p


def batch(spec: dict[str, Any], epoch: int, step: int, rank: int, world: int) -> list[list[int]]:
    firsts = list(itertools.accumulate(spec["shard_records"], initial=0))
    n, g = firsts[-1], spec["global_batch"]
    q, m = divmod(min(g, n - step * g), world)
    first = step * g + rank * q + min(rank, m)
    positions = range(first, first + q + (rank < m))
    numbers = [permute(spec["seed"], epoch, n, p) if spec["shuffle"] else p for p in positions]
    shards = [bisect.bisect_right(firsts, x) - 1 for x in numbers]
    return [[s, x - firsts[s]] for s, x in zip(shards, numbers, strict=True)]


def canonical_bytes(spec: dict[str, Any]) -> bytes:
    source = (bytes.fromhex(spec["manifest_digest"]), spec["weight"], spec["shuffle"])
    numbers = (spec[name] for name in ("seed", "global_batch", "tail"))
    return struct.pack("<BI16sIBQQB", 1, 1, *source, *numbers)
