# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""src/emlio/plan/PLAN.md in Python, written from the page and not from the C++ code."""

import bisect
import itertools
import struct
from typing import Any

MASK, GAMMA = 2**64 - 1, 0x9E3779B97F4A7C15
M1, M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
NONE, FULL, BLOCK = 0, 1, 2
PAD = 2


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * M1) & MASK
    z = ((z ^ (z >> 27)) * M2) & MASK
    return z ^ (z >> 31)


def epoch_state(seed: int, epoch: int) -> int:
    return mix((mix((seed + GAMMA) & MASK) + epoch + GAMMA) & MASK)


def draw(state: int, number: int) -> int:
    return mix((state + number * GAMMA) & MASK)


def round_keys(state: int) -> list[int]:
    return [draw(state, i + 1) for i in range(8)]


def top(z: int, bits: int) -> int:
    z = (z * M1) & MASK
    return (((z ^ (z >> 32)) * M2) & MASK) >> (64 - bits)


def permute(state: int, n: int, p: int) -> int:
    k, key = max(6, (n - 1).bit_length()), round_keys(state)
    lo, hi = (k + 1) // 2, k // 2
    while True:
        left, right = p >> lo, p % 2**lo
        for i in range(0, 8, 2):
            left ^= top(right ^ key[i], hi)
            right ^= top(left ^ key[i + 1], lo)
        p = left * 2**lo + right
        if p < n:
            return p


def block(state: int, n: int, block_records: int, window_blocks: int, p: int) -> int:
    window_records, full_blocks = block_records * window_blocks, n // block_records
    w = p // window_records
    first = w * window_records
    size = min(window_records, n - first)
    q = first + permute(mix((draw(state, 11) + w + GAMMA) & MASK), size, p - first)
    b = q // block_records
    if b < full_blocks:
        b = permute(draw(state, 10), full_blocks, b)
    return (b * block_records + q % block_records + draw(state, 9) % n) % n


def number(spec: dict[str, Any], epoch: int, n: int, p: int) -> int:
    """The record number at a position."""
    state = epoch_state(spec["seed"], epoch)
    if spec["shuffle"] == FULL:
        return permute(state, n, p)
    if spec["shuffle"] == BLOCK:
        return block(state, n, spec["block_records"], spec["window_blocks"], p)
    return p


def share(spec: dict[str, Any], n: int, step: int, rank: int, world: int) -> tuple[range, int]:
    """Positions of a rank's batch, and how many of them are padded."""
    g = spec["global_batch"]
    q, m = divmod(g if spec.get("tail") == PAD else min(g, n - step * g), world)
    first = step * g + rank * q + min(rank, m)
    positions = range(first, first + q + (rank < m))
    return positions, min(len(positions), max(0, positions.stop - n))


def batch(spec: dict[str, Any], epoch: int, step: int, rank: int, world: int) -> list[list[int]]:
    firsts = list(itertools.accumulate(spec["shard_records"], initial=0))
    n = firsts[-1]
    positions, _ = share(spec, n, step, rank, world)
    numbers = [number(spec, epoch, n, p % n) for p in positions]
    shards = [bisect.bisect_right(firsts, x) - 1 for x in numbers]
    return [[s, x - firsts[s]] for s, x in zip(shards, numbers, strict=True)]


def canonical_bytes(spec: dict[str, Any]) -> bytes:
    names = ("weight", "shuffle", "block_records", "window_blocks", "seed", "global_batch", "tail")
    digest = bytes.fromhex(spec["manifest_digest"])
    return struct.pack("<BI16sIBIIQQB", 1, 1, digest, *(spec[name] for name in names))
