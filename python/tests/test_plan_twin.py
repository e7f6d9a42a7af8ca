# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The Python twin of PLAN.md reproduces the vectors that the C++ tests read.

`python test_plan_twin.py --write` makes tests/testdata/plan_vectors.json anew; do so only together
with a new version of PLAN.md. The plan hashes in it come from the package xxhash.
"""

import json
import sys
from pathlib import Path
from typing import Any

import plan_twin

VECTORS = Path(__file__).parents[2] / "tests" / "testdata" / "plan_vectors.json"


def test_round_keys() -> None:
    for vector in json.loads(VECTORS.read_text())["round_keys"]:
        state = plan_twin.epoch_state(vector["seed"], vector["epoch"])
        assert plan_twin.round_keys(state) == vector["keys"]


def test_permutations() -> None:
    for vector in json.loads(VECTORS.read_text())["permutations"]:
        state, size = plan_twin.epoch_state(vector["seed"], vector["epoch"]), vector["size"]
        assert [plan_twin.permute(state, size, p) for p in vector["positions"]] == vector["values"]


def test_blocks() -> None:
    for vector in json.loads(VECTORS.read_text())["blocks"]:
        made = block_vector(
            *(vector[key] for key in ("seed", "epoch", "records")),
            *(vector[key] for key in ("block_records", "window_blocks", "positions")),
        )
        assert made == vector


def test_plans() -> None:
    for vector in json.loads(VECTORS.read_text())["plans"]:
        assert plan_twin.canonical_bytes(vector["spec"]).hex() == vector["canonical_bytes"]
        for batch in vector["batches"]:
            where = batch["epoch"], batch["step"], batch["rank"], batch["world_size"]
            assert plan_twin.batch(vector["spec"], *where) == batch["records"]
            n = sum(vector["spec"]["shard_records"])
            assert plan_twin.share(vector["spec"], n, *where[1:])[1] == batch["padded"]


def permutation_vector(seed: int, epoch: int, size: int, positions: list[int]) -> dict[str, Any]:
    state = plan_twin.epoch_state(seed, epoch)
    values = [plan_twin.permute(state, size, p) for p in positions]
    return {"seed": seed, "epoch": epoch, "size": size, "positions": positions, "values": values}


def block_vector(
    seed: int, epoch: int, records: int, block: int, window: int, positions: list[int]
) -> dict[str, Any]:
    state = plan_twin.epoch_state(seed, epoch)
    return {
        "seed": seed,
        "epoch": epoch,
        "records": records,
        "block_records": block,
        "window_blocks": window,
        "positions": positions,
        "values": [plan_twin.block(state, records, block, window, p) for p in positions],
    }


def plan_vector(spec: dict[str, Any], places: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    import xxhash  # type: ignore[import-not-found, unused-ignore]

    canonical = plan_twin.canonical_bytes(spec)
    batches = [
        {
            "epoch": epoch,
            "step": step,
            "rank": rank,
            "world_size": world,
            "padded": plan_twin.share(spec, sum(spec["shard_records"]), step, rank, world)[1],
            "records": plan_twin.batch(spec, epoch, step, rank, world),
        }
        for epoch, step, rank, world in places
    ]
    return {
        "spec": spec,
        "canonical_bytes": canonical.hex(),
        "hash": xxhash.xxh3_128_hexdigest(canonical),
        "batches": batches,
    }


def make_vectors() -> dict[str, Any]:
    largest = 2**64 - 1
    keys = [(0, 0), (0, 1), (1, 0), (largest, largest), (42, 7)]
    whole = [(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4), (1, 0, 16), (1, 1, 65)]
    sampled = [(0, 0, 1000), (7, 3, 10**9), (7, 4, 10**9), (largest, 5, 10**12), (3, 1, 2**62)]

    whole_blocks = [(0, 0, 1, 1, 1), (0, 0, 10, 6, 1), (3, 1, 40, 4, 3), (1, 2, 23, 5, 2)]
    whole_blocks += [(1, 0, 9, 20, 7), (2, 5, 30, 1, 1), (4, 0, 21, 3, 2**32 - 1)]
    sampled_blocks = [(7, 3, 10**9, 9, 61), (largest, 5, 10**12 + 1, 1000, 2**32 - 1)]
    sampled_blocks += [(3, 1, 2**62, 2**32 - 1, 2**32 - 1), (3, 1, 2**62, 2**31, 4)]

    def spec(
        shards: list[int],
        shuffle: int,
        tail: int,
        batch: int,
        seed: int,
        blocks: tuple[int, int] = (0, 0),
    ) -> dict[str, Any]:
        return {
            "manifest_digest": bytes(range(16)).hex(),
            "shard_records": shards,
            "weight": 1,
            "shuffle": shuffle,
            "block_records": blocks[0],
            "window_blocks": blocks[1],
            "seed": seed,
            "global_batch": batch,
            "tail": tail,
        }

    return {
        "round_keys": [
            {"seed": s, "epoch": e, "keys": plan_twin.round_keys(plan_twin.epoch_state(s, e))}
            for s, e in keys
        ],
        "permutations": [permutation_vector(s, e, n, list(range(n))) for s, e, n in whole]
        + [permutation_vector(s, e, n, [0, 1, 2, n // 2, n - 2, n - 1]) for s, e, n in sampled],
        "blocks": [block_vector(*args, list(range(args[2]))) for args in whole_blocks]
        + [
            block_vector(*args, [0, 1, 2, args[2] // 2, args[2] - 2, args[2] - 1])
            for args in sampled_blocks
        ],
        "plans": [
            plan_vector(spec([4, 3, 5], 0, 1, 5, 0), [(0, 0, 0, 1), (1, 1, 1, 2), (0, 2, 0, 2)]),
            plan_vector(
                spec([0, 10, 0, 0, 23, 1, 0], 1, 1, 8, 11),
                [(0, 0, 0, 1), (1, 0, 0, 1), (0, 1, 1, 3), (0, 1, 2, 3), (2, 4, 1, 2)],
            ),
            plan_vector(
                spec([10**6] * 1000, 1, 0, 4096, largest),
                [(0, 0, 511, 512), (9, 244139, 0, 1024), (9, 244139, 1023, 1024)],
            ),
            plan_vector(
                spec([4, 0, 6], 0, 2, 12, 0),
                [(0, 0, 0, 4), (0, 0, 2, 4), (0, 0, 3, 4), (1, 0, 0, 1)],
            ),
            plan_vector(spec([2, 1], 1, 2, 11, 5), [(0, 0, 0, 1), (2, 0, 2, 3)]),
            plan_vector(
                spec([13, 24], 2, 2, 10, 6, (4, 3)),
                [(0, 0, 0, 1), (0, 3, 0, 1), (4, 3, 1, 2), (4, 2, 2, 3)],
            ),
        ],
    }


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    VECTORS.write_text(json.dumps(make_vectors(), indent=1) + "\n")
