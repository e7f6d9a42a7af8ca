# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""benchmarks/wan/bad_cases.py: its arithmetic, what its watcher refuses, and a whole short run."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.images import ImageSet, load_into_memory
from benchmarks.peers.node import LOOPBACK
from benchmarks.peers.peer import Tools, Work
from benchmarks.processes import BenchmarkError
from benchmarks.report import REPOSITORY
from benchmarks.wan.bad_cases import (
    CASES,
    GOALS,
    Phase,
    case_results,
    laboratory,
    parse,
    phase_row,
    phase_rows,
    phases_markdown,
    read_watched,
    run_case,
    series,
)
from benchmarks.wan.watched import WatchedLoader
from benchmarks.wanlab import (
    Lab,
    LabError,
    Link,
    NodeSettings,
    NotPermittedError,
    Topology,
    find_emulator,
)

STEADY = Phase("steady", 4.0)
OUTAGE = next(case for case in CASES if case.name == "outage")


@pytest.fixture(scope="module")
def permitted() -> None:
    """Skips where there is no emulator, or the system permits no namespaces or TUN devices."""
    try:
        find_emulator()
    except LabError as error:
        pytest.skip(str(error))
    try:
        with Lab(Topology.pair(Link()), backend="emulator"):
            pass
    except NotPermittedError as error:
        pytest.skip(f"no laboratory here: {error}")


# What a run says of link and machine.
CONDITIONS: dict[str, Any] = {
    "settings": {},
    "streams": 4,
    "idle_share": 0.5,
    "foreign_share": 0.0,
    "emulator_late_us": 20.0,
    "dropped": {"queue": 0},
}


def arrivals(rates: list[float], first_s: float = 100.0) -> list[tuple[float, int]]:
    """What comes with these MB/s, one a tenth of a second, in pieces of 10 ms."""
    return [
        (first_s + i / 10 + j / 100 + 0.005, round(rate * 1e4))
        for i, rate in enumerate(rates)
        for j in range(10)
    ]


def test_a_series_has_the_rate_of_each_quarter_of_a_second() -> None:
    assert series(arrivals([20.0] * 5 + [40.0] * 5), 100.0)[:3] == pytest.approx([20, 20, 40])


def test_a_rate_is_steady_from_the_first_second_that_is_near_the_last_ones() -> None:
    row = phase_row(STEADY, arrivals([0.0] * 10 + [100.0] * 30), 100.0, 104.0)
    assert row["steady_mb_per_s"] == pytest.approx(100)
    assert row["mb_per_s"] == pytest.approx(75)
    assert row["until_steady_s"] == pytest.approx(0.9, abs=0.06)


def test_a_rate_that_falls_is_steady_when_it_has_fallen() -> None:
    row = phase_row(STEADY, arrivals([100.0] * 8 + [50.0] * 32), 100.0, 104.0)
    assert row["until_steady_s"] == pytest.approx(0.7, abs=0.06)


def test_a_phase_in_which_nothing_comes_is_never_steady() -> None:
    before_and_after = [(99.0, 10), (105.0, 10)]
    row = phase_row(STEADY, before_and_after, 100.0, 104.0)
    assert row["steady_mb_per_s"] == 0
    assert row["until_steady_s"] is None
    assert row["longest_wait_s"] == pytest.approx(4.0)


def test_the_longest_wait_of_a_phase_may_reach_its_ends() -> None:
    row = phase_row(STEADY, [(100.5, 1), (101.0, 1)], 100.0, 104.0)
    assert row["longest_wait_s"] == pytest.approx(3.0)


def test_a_run_that_ends_before_its_last_phase_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="outage: the run ended in phase 2"):
        phase_rows(OUTAGE, arrivals([1.0]), [100.0, 101.0])


def test_goals_are_of_figures_that_there_are() -> None:
    run = {
        **CONDITIONS,
        "phases": [{"steady_mb_per_s": 1.0, "until_steady_s": 0.0, "longest_wait_s": 0.0}] * 3,
    }
    names = {result.metric for case in CASES for result in case_results(case, [run])}
    assert {goal for goal in GOALS if "slow_consumer" not in goal} <= names


def test_times_until_steady_are_given_only_where_every_run_was() -> None:
    phases = [{"steady_mb_per_s": 1.0, "until_steady_s": 0.5, "longest_wait_s": 0.0}] * 3
    never = [*phases[:2], {"steady_mb_per_s": 0.0, "until_steady_s": None, "longest_wait_s": 4.0}]
    both = case_results(
        OUTAGE, [{**CONDITIONS, "phases": phases}, {**CONDITIONS, "phases": never, "streams": 6}]
    )
    names = [result.metric for result in both]
    assert "bad_outage_during_until_steady_s" in names
    assert "bad_outage_after_until_steady_s" not in names
    assert "bad_outage_after_over_link" in names
    assert both[0].settings["streams"] == [4, 6]


def test_kernel_settings_of_the_command_line() -> None:
    assert parse(["--sysctl", "net.ipv4.tcp_rto_max_ms=1000"]).sysctl == [
        ("net.ipv4.tcp_rto_max_ms", "1000")
    ]
    with pytest.raises(SystemExit):
        parse(["--sysctl", "net.ipv4.tcp_rto_max_ms"])


def watch(images: ImageSet, body: str) -> "subprocess.CompletedProcess[str]":
    """Runs a watcher that `body` feeds; `batch(step, numbers, epoch=0)` makes a batch."""
    program = f"""
        import numpy as np
        from pathlib import Path
        from types import SimpleNamespace
        from benchmarks.peers.images import image_path
        from benchmarks.wan.watched import Watch
        def batch(step, numbers, epoch=0):
            paths = [Path({str(images.folder)!r}) / image_path(n) for n in numbers]
            records = [np.fromfile(path, np.uint8) for path in paths]
            class Batch(SimpleNamespace):
                def __len__(self):
                    return len(numbers)
            return Batch(epoch=epoch, step=step, indices=np.array(numbers), records=records,
                         payload_bytes=sum(record.size for record in records))
        with Watch({{"catalogue": {str(images.catalogue)!r}}}) as watch:
    """
    loop = textwrap.indent(textwrap.dedent(body), "    ")
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program) + loop],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def test_a_watcher_counts_what_comes(images: ImageSet) -> None:
    done = watch(
        images,
        """
        for epoch in range(2):
            watch.add(batch(0, range(100), epoch))
            watch.add(batch(1, range(149, 99, -1), epoch))
            watch.end_epoch()
        """,
    )
    result = json.loads(done.stdout)
    assert (result["images"], result["batches"], result["epochs"]) == (300, 4, 2)
    assert result["bytes"] == sum(size for _, size in result["arrivals"]) == 2 * images.total_bytes
    assert result["begin_s"] < result["arrivals"][0][0] <= result["arrivals"][1][0]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("watch.add(batch(1, [5]))", "epoch 0, step 1 came instead of epoch 0, step 0"),
        ("watch.add(batch(0, [5], epoch=1))", "epoch 1, step 0 came instead of epoch 0, step 0"),
        ("watch.add(batch(0, [5, 6, 5]))", "image 5 came twice in epoch 0"),
        ("watch.add(batch(0, range(149)))\nwatch.end_epoch()", "1 images did not come in epoch 0"),
        (
            "b = batch(0, [5, 6])\nb.indices = b.indices[::-1]\nwatch.add(b)",
            "image 6 came with other bytes",
        ),
        ("b = batch(0, [5])\nb.records[0][99] ^= 1\nwatch.add(b)", "image 5 came with other bytes"),
    ],
)
def test_a_watcher_refuses_what_is_wrong(images: ImageSet, body: str, complaint: str) -> None:
    done = watch(images, body)
    assert done.returncode != 0
    assert complaint in done.stderr
    assert done.stdout == ""


def test_a_slow_consumer_takes_no_more_than_it_is_to(
    images: ImageSet, tools: Tools, tmp_path: Path
) -> None:
    started: list[Any] = []
    loader = WatchedLoader(
        Work(images, 1, tmp_path, tools, 60),
        {"prefetch_mb": 1},
        started=lambda: started.append(1),
        seconds=0.5,
        mb_per_s=2.0,
    )
    load_into_memory(loader.prepare())
    with loader.serve(LOOPBACK) as service:
        result = loader.read(LOOPBACK, service, lambda word: None)
    assert started == [1]
    assert result["images"] == 150 * result["epochs"]
    assert result["bytes"] / result["seconds"] < 2.3e6  # the last batch is not waited for


def test_an_outage_loses_nothing(permitted: None, images: ImageSet, tools: Tools) -> None:
    brief = replace(
        OUTAGE,
        phases=(
            Phase("before", 0.5),
            Phase("during", 0.4, {"cut": True}),
            Phase("after", 1.5, {"cut": False}),
        ),
        rtt_ms=5.0,
    )
    run = run_case(brief, images, tools, NodeSettings())
    before, during, after = run["phases"]
    assert before["mb_per_s"] > 0
    assert during["longest_wait_s"] > 0.2
    assert after["mb_per_s"] > 0
    assert run["images"] == 150 * run["epochs"]
    json.dumps(run)
    assert run["streams"] >= 1
    row = f"| {OUTAGE.title} | emlio | {run['streams']} | 1 | before |"
    assert row in phases_markdown([run])


def test_a_link_that_cannot_be_changed_so_is_an_error(
    permitted: None, images: ImageSet, tools: Tools
) -> None:
    impossible = [Phase("bad", 1.0, {"delay_ms": -1})]
    with (
        laboratory(replace(OUTAGE, rtt_ms=1.0), NodeSettings()) as lab,
        pytest.raises(BenchmarkError, match="the link could not be changed"),
    ):
        read_watched(lab, images, tools, impossible, seconds=0.2)
