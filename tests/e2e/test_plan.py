# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""`emlio plan` says what `emlio pull` then does, for every rank, order and tail."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from command_line import (
    FRAMED_BYTES,
    RECORDS,
    SHARDS,
    Emlio,
    pull_report,
    read_dump,
    shard_path,
)
from daemon_process import Serve

BLOCKS = ("--shuffle", "block", "--shuffle-block", 7, "--shuffle-window", 35)
ORDERS = [("--shuffle", "none"), ("--shuffle", "full", "--seed", 5), (*BLOCKS, "--seed", 6)]


def plan_json(emlio: Emlio, *args: object, code: int = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(emlio("plan", *args, "--json", "-", code=code).stdout)
    return report


@pytest.mark.parametrize("tail", ["keep", "drop", "pad"])
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: str(order[1]))
def test_batches_are_those_that_ranks_receive(
    emlio: Emlio, shards: Path, tmp_path: Path, order: tuple[object, ...], tail: str
) -> None:
    settings = (shards, "--global-batch-size", 32, "--world-size", 3, "--tail", tail, *order)
    planned = plan_json(emlio, *settings, "--steps", ":", "--epoch", "1:3")
    assert planned["steps_per_epoch"] == (9 if tail == "drop" else 10)
    for rank in range(3):
        dump = tmp_path / f"dump-{rank}"
        # --start: passes of the epochs 1 and 2.
        report = pull_report(
            emlio,
            *(*settings, "--rank", rank, "--start", "1:0", "--epochs", 2, "--dump-indices", dump),
        )
        assert report["plan_hash"] == planned["plan_hash"]
        assert report["steps_per_epoch"] == planned["steps_per_epoch"]
        of_rank = [batch for batch in planned["batches"] if batch["rank"] == rank]
        assert [[b["epoch"], b["step"], *b["numbers"]] for b in of_rank] == read_dump(dump)
        alone = plan_json(emlio, *settings, "--steps", ":", "--epoch", "1:3", "--rank", rank)
        assert alone["batches"] == of_rank
    padded = {
        (batch["rank"], batch["padded"])
        for batch in planned["batches"]
        if batch["step"] == planned["steps_per_epoch"] - 1
    }
    assert sum(count for _, count in padded) == planned["padded"] == (20 if tail == "pad" else 0)
    assert planned["left_out"] == (12 if tail == "drop" else 0)


def test_places_are_shards_records_and_offsets(emlio: Emlio, shards: Path) -> None:
    report = plan_json(emlio, shards, "--batch-size", 40, "--shuffle", "full", "--steps", "2")
    (batch,) = report["batches"]
    assert [shard["name"] for shard in report["shard_list"]] == [
        shard_path(shards, number).name for number in range(SHARDS)
    ]
    for number, shard, record, offset in zip(
        batch["numbers"], batch["shards"], batch["records"], batch["offsets"], strict=True
    ):
        assert (shard, record) == divmod(number, RECORDS // SHARDS)
        assert offset == record * FRAMED_BYTES


@pytest.mark.parametrize("tail", ["keep", "drop", "pad"])
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: str(order[1]))
def test_a_record_is_found_where_it_is_listed(
    emlio: Emlio, shards: Path, order: tuple[object, ...], tail: str
) -> None:
    settings = (shards, "--batch-size", 16, "--world-size", 2, "--tail", tail, *order)
    settings = (*settings, "--epoch", "0:40")
    listed = plan_json(emlio, *settings, "--steps", ":")["batches"]
    for record in (0, 299, f"{shard_path(shards, 1).name}:55"):
        report = plan_json(emlio, *settings, "--record", record)["record"]
        expected = [
            {
                "epoch": batch["epoch"],
                "step": batch["step"],
                "rank": batch["rank"],
                "slot": slot,
                "padded": slot >= len(batch["numbers"]) - batch["padded"],
            }
            for batch in listed
            for slot, number in enumerate(batch["numbers"])
            if number == report["number"]
        ]
        assert report["slots"] == expected
        assert report["shard"] == shard_path(shards, report["number"] // 100).name
        per_epoch = Counter(slot["epoch"] for slot in report["slots"] if not slot["padded"])
        if tail != "drop":
            assert per_epoch == Counter(range(40))


def test_people_get_a_summary_and_only_what_they_ask_for(emlio: Emlio, shards: Path) -> None:
    settings = ("plan", shards, "--global-batch-size", 32, "--world-size", 3)
    summary = emlio(*settings).stdout
    assert "data set    3 shards, 300 records, 300 KB\n" in summary
    assert "an epoch    10 steps of 32 records over 3 ranks\n" in summary
    assert "a rank      10 to 11 records a step, 4 in the last\n" in summary
    assert "tail        keep: the last step has 12 records instead of 32\n" in summary
    assert re.search(r"^plan hash   [0-9a-f]{32}$", summary, re.MULTILINE)
    assert "offset" not in summary
    listing = emlio(*settings, "--steps", "3:4").stdout.removeprefix(summary)
    name = shard_path(shards, 0).name, shard_path(shards, 1).name
    assert [line.split() for line in listing.splitlines() if line] == [
        ["epoch", "step", "rank", "slot", "number", "record", "offset", "shard"],
        ["0", "3", "0", "0-3", "96-99", "96-99", str(96 * FRAMED_BYTES), name[0]],
        ["0", "3", "0", "4-10", "100-106", "0-6", "0", name[1]],
        ["0", "3", "1", "0-10", "107-117", "7-17", str(7 * FRAMED_BYTES), name[1]],
        ["0", "3", "2", "0-9", "118-127", "18-27", str(18 * FRAMED_BYTES), name[1]],
    ]
    found = emlio(*settings, "--record", 110).stdout.removeprefix(summary)
    assert f"record 10 of shard {name[1]}, number 110 of the data set" in found
    assert found.splitlines()[-1].split() == ["0", "3", "1", "3"]
    left_out = emlio(*settings, "--tail", "drop", "--record", 299).stdout
    assert left_out.splitlines()[-1].split(maxsplit=4)[4] == "left out by tail drop"


def test_a_daemon_is_asked_like_local_files(emlio: Emlio, serve: Serve, shards: Path) -> None:
    settings = ("--batch-size", 50, "--shuffle", "full", "--steps", "1")
    local = plan_json(emlio, shards, *settings)
    remote = plan_json(emlio, f"{serve({'train': shards}).endpoint}/train", *settings)
    (batch,) = local["batches"]
    del batch["offsets"], local["sources"], remote["sources"]
    assert remote == local


def test_ends_of_ranges_may_be_left_out(emlio: Emlio, shards: Path) -> None:
    def steps(text: str) -> list[int]:
        batches = plan_json(emlio, shards, "--batch-size", 60, "--steps", text)["batches"]
        return [batch["step"] for batch in batches]

    assert steps("2") == [2]
    assert steps("1:3") == [1, 2]
    assert steps("3:") == [3, 4]
    assert steps(":2") == [0, 1]
    assert steps("3:99") == [3, 4]
    assert steps(":") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--batch-size"),
        (("--batch-size", 0), "at least 1"),
        (("--batch-size", 1, "--steps", "x"), "'x' is no range"),
        (("--batch-size", 1, "--steps", "3:2"), "'3:2' is no range"),
        (("--batch-size", 1, "--steps", "300"), "there is no step 300"),
        (("--batch-size", 1, "--epoch", "4:"), "'4:' is no range"),
        (("--batch-size", 1, "--rank", 0), "--steps"),
        (("--batch-size", 1, "--rank", 1, "--steps", 0), "rank 1"),
        (("--batch-size", 1, "--record", 1, "--steps", 0), "--record"),
        (("--batch-size", 1, "--record", 300), "the data set has 300"),
        (("--batch-size", 1, "--shuffle-block", 5), "shuffle 'block'"),
        (("--global-batch-size", 2, "--world-size", 3), "at least 3"),
    ],
)
def test_what_cannot_be_planned_is_a_usage_error(
    emlio: Emlio, shards: Path, args: tuple[object, ...], said: str
) -> None:
    done = emlio("plan", shards, *args, code=2)
    assert said in done.stderr


def test_data_that_cannot_be_read_are_not_a_usage_error(emlio: Emlio, tmp_path: Path) -> None:
    pattern = tmp_path / "nothing-*"
    assert str(pattern) in emlio("plan", pattern, "--batch-size", 1, code=1).stderr
    emlio("plan", "tcp://127.0.0.1:1/x", "--batch-size", 1, "--timeout-s", 0.5, code=3)
