# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/wan measures, keeps, makes of it and shows; with rows that are made up."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.environments import Environments
from benchmarks.peers.harness import PEERS
from benchmarks.peers.peer import Tools
from benchmarks.processes import BenchmarkError
from benchmarks.report import Result, confidence_95
from benchmarks.wan import metrics, settings, tables
from benchmarks.wan.__main__ import EXIT_UNFINISHED, main
from benchmarks.wan.bands import judge, load_bands
from benchmarks.wan.options import chosen_cells, parse
from benchmarks.wan.planning import Amount, Plan, amount_for, estimate_s, is_beaten
from benchmarks.wan.running import Runner
from benchmarks.wan.settings import (
    AS_EMLIO,
    IPERF3,
    LOADER,
    LONG_EPOCHS,
    NGINX,
    PAPER,
    PULL,
    RAW_TCP,
    USUAL,
    Cell,
    Line,
    Workload,
    blocks,
    turns,
)
from benchmarks.wan.store import Store
from benchmarks.wan.watching import late_us, processor_times, steady_mb_per_s
from benchmarks.wanlab import Lab, LabError, Topology, find_emulator, symmetric_link

FAR, NEAR = Line(30.0, 5000.0), Line(0.1, 5000.0)


def made_row(**fields: Any) -> dict[str, Any]:
    """A row as running.py makes it."""
    node = {
        "cpu_s": 1.0,
        "cpu_s_per_gb": 0.5,
        "peak_memory_bytes": 1 << 20,
        "wire_received_bytes": 1,
        "wire_sent_bytes": 1,
    }
    return {
        "date": "2026-11-30T12:00:00+00:00",
        "commit": "c0ffee",
        "link": {"congestion": "bbr", "tcp_wmem": "1 2 3", "tcp_rmem": "1 2 3"},
        "ended_by": "bytes",
        "bound_s": None,
        "wall_s": 3.0,
        "start_s": 1.0,
        "settings": {},
        "passes": 1,
        "images": 1000,
        "bytes": 100_000_000,
        "seconds": 1.0,
        "mb_per_s": 100.0,
        "images_per_s": 1000.0,
        "first_batch_s": 0.1,
        "epoch_seconds": [2.0, 1.0],
        "steady_wire_mb_per_s": 100.0,
        "connections": 5,
        "idle_share": 0.5,
        "foreign_share": 0.0,
        "emulator_late_us": 20.0,
        "storage": node,
        "compute": node,
        **fields,
    }


def cpu_row(storage: float, compute: float, **fields: Any) -> dict[str, Any]:
    row = made_row(**fields)
    for name, value in (("storage", storage), ("compute", compute)):
        row[name] = {**row[name], "cpu_s_per_gb": value}
    return row


def add(
    store: Store,
    peer: str,
    rows: Sequence[dict[str, Any]],
    line: Line = FAR,
    load: Workload = USUAL,
    **given: Any,
) -> None:
    for number, row in enumerate(rows):
        store.add(Cell(line, load, peer, tuple(given.items())), number, row)


def found(store: Store) -> dict[str, Result]:
    return {result.metric: result for result in metrics.results(store.rows())}


# What is read off link and machine


def test_the_steady_rate_leaves_out_the_start_and_the_end() -> None:
    waiting = [(0.1 * i, 500) for i in range(10)]
    # A slow second, then three at 100 MB/s, then silence.
    slow = [(1 + 0.1 * i, 500 + 1_000_000 * i) for i in range(10)]
    quick = [(2 + 0.1 * i, 10_000_500 + 10_000_000 * i) for i in range(31)]
    silence = [(5.1 + 0.1 * i, 310_000_500) for i in range(20)]
    assert steady_mb_per_s([*waiting, *slow, *quick, *silence]) == pytest.approx(100)


def test_a_run_without_a_middle_has_no_steady_rate() -> None:
    with pytest.raises(BenchmarkError, match="too short"):
        steady_mb_per_s([(0.0, 0), (0.1, 1000), (0.2, 1000)])


def test_waiting_for_storage_is_idle_and_stolen_time_is_not() -> None:
    stat = "cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
    assert processor_times(stat) == (450, 531)


def test_the_confidence_interval_is_students() -> None:
    # Five samples: t for four degrees of freedom is 2.776.
    interval = confidence_95([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.776 * math.sqrt(2.5) / math.sqrt(5)
    assert interval == pytest.approx((3 - half, 3 + half))
    assert confidence_95([1.0]) is None


# How much is read


@pytest.mark.parametrize(
    ("bound_s", "most_images_per_s", "amount"),
    [
        (None, 3.0, Amount(4000, 5)),  # 2 GB of 100 KB
        (8.0, None, Amount(4000, 5)),
        (8.0, 5000.0, Amount(4000, 5)),
        (8.0, 1800.0, Amount(4000, 4)),
        (8.0, 3.0, Amount(4000, 1)),
    ],
)
def test_no_more_passes_are_got_ready_than_a_peer_can_read_in_its_time(
    bound_s: float | None, most_images_per_s: float | None, amount: Amount
) -> None:
    assert amount_for(100_000, 2e9, bound_s, most_images_per_s) == amount


def test_passes_are_got_ready_for_three_times_of_what_a_peer_has_read() -> None:
    store, plan = Store(), Plan([], run_s=8.0)
    add(store, "dali", [made_row(images_per_s=600.0)], NEAR)
    assert plan.amount_of(Cell(FAR, USUAL, "dali"), store) == Amount(4000, 4)
    assert plan.amount_of(Cell(FAR, USUAL, "grain"), store) == Amount(4000, 5)
    # A file a sample: two round trips for each, 16 at a time.
    assert plan.amount_of(Cell(FAR, USUAL, "torch-nfs"), store) == Amount(4000, 1)
    assert plan.amount_of(Cell(NEAR, USUAL, "torch-nfs"), store) == Amount(4000, 5)


def test_a_peer_is_no_quicker_over_a_longer_or_narrower_line() -> None:
    store = Store()
    add(store, "spdl", [made_row(images_per_s=500.0)], Line(1.0, 1000.0))
    add(store, "spdl", [made_row(images_per_s=100.0)], Line(100.0, 0.0))
    add(store, "grain", [made_row(images_per_s=1000.0)], Line(1.0, 1000.0))
    add(store, "spdl", [made_row(images_per_s=1000.0)], Line(1.0, 1000.0), threads=9)

    def most(line: Line) -> float | None:
        return store.most_images_per_s(Cell(line, USUAL, "spdl"))

    assert most(Line(30.0, 1000.0)) == 500.0
    assert most(Line(30.0, 5000.0)) is None
    assert most(Line(100.0, 5000.0)) == 100.0
    assert most(Line(0.1, 1000.0)) is None


def test_runs_are_bounded_in_time_but_for_long_epochs() -> None:
    slow, ours = Cell(FAR, USUAL, "spdl"), Cell(FAR, USUAL, LOADER)
    epochs = Cell(FAR, LONG_EPOCHS, LOADER)
    whole, goals = Plan([], run_s=8.0), Plan([], run_s=20.0, bounds_all=False)
    assert [whole.bound_s(cell) for cell in (slow, ours, epochs)] == [8.0, 8.0, None]
    assert [goals.bound_s(cell) for cell in (slow, ours, epochs)] == [20.0, None, None]


# What is run


def test_whatever_a_cell_is_can_be_read_back() -> None:
    cell = Cell(Line(0.1, 0.0, 0.1, "raised"), Workload(10_000), IPERF3, (("streams", AS_EMLIO),))
    assert Cell.from_json(json.loads(json.dumps(cell.to_json()))) == cell


def test_names_end_in_the_link() -> None:
    assert FAR.name == "_30ms_5g"
    assert Line(0.1, 0.0).name == "_0ms"
    assert Line(100.0, 1000.0, 0.1, "raised").name == "_100ms_1g_loss_raised"


def test_every_goal_has_its_cells() -> None:
    """Rows for the cells of --goals make every metric that has a goal."""
    store = Store()
    for cell in settings.goals():
        for number in range(5):
            store.add(cell, number, made_row())
    for peer in (RAW_TCP, NGINX):  # whether or not they are built here
        add(store, peer, [made_row()] * 5, streams=AS_EMLIO)
    assert set(metrics.GOALS) <= set(found(store))
    for metric in metrics.GOALS:
        assert found(store)[metric].n == 5, metric


def test_quick_has_its_metrics() -> None:
    store = Store()
    for cell in settings.quick():
        store.add(cell, 0, made_row())
    wanted = ["emlio_over_iperf3_30ms_1g", "epoch_30ms_over_0ms_1g", "cpu_over_paper_python_1g"]
    assert set(wanted) <= set(found(store))


def test_every_band_has_its_cells() -> None:
    store = Store()
    for cell in settings.check():
        store.add(cell, 0, made_row())
    add(store, RAW_TCP, [made_row()], Line(30.0, 1000.0), streams=AS_EMLIO)
    assert set(load_bands()) <= set(found(store))


def test_the_default_matrix_has_every_peer_at_every_distance_and_rate() -> None:
    whole = chosen_cells(parse([]))
    assert {cell.peer for cell in whole} == set(PEERS)
    usual = [c for c in whole if c.workload == USUAL and c.line.more_name == ""]
    for peer in ("emlio", "webdataset", "dali", "iperf3"):
        seen = {(c.line.rtt_ms, c.line.rate_mbit) for c in usual if c.peer == peer}
        wanted = {(r, rate) for r in (0.1, 1.0, 10.0, 30.0, 100.0) for rate in (0.0, 1e3, 5e3)}
        assert wanted <= seen, peer
    assert {c.line.rate_mbit for c in usual if c.peer == "torch-nfs" and c.line.rtt_ms > 1} == {5e3}
    assert {c.line.rtt_ms for c in usual if c.peer == NGINX} == {30.0}


def test_the_rest_of_the_default_matrix_varies_alone() -> None:
    whole = chosen_cells(parse([]))
    for c in whole:
        alone = [c.line.loss_percent, c.workload.decode, c.line.tcp != "stock"]
        alone.append(c.workload.image_bytes != 100_000)
        assert sum(map(bool, alone)) <= 1
    assert {c.line.tcp for c in whole} == {"stock", "raised", "cubic"}
    assert {c.peer for c in whole if c.line.tcp != "stock"} == {LOADER, IPERF3}
    assert {c.workload.image_bytes for c in whole} == {10_000, 100_000, 2_000_000}
    assert {c.peer for c in whole if c.workload.decode} == {
        name for name, peer in PEERS.items() if peer.decodes
    }
    assert {c.line.rtt_ms for c in whole if c.line.loss_percent and c.peer == "grain"} == {30.0}


def test_all_has_every_combination_of_what_is_asked_for() -> None:
    values = ["--all", "--peers", "emlio,dali", "--rate-mbit", "2500", "--loss", "0.1", "1"]
    asked = chosen_cells(parse([*values, "--tcp", "raised", "stock", "--rtt-ms", "5", "50"]))
    sizes_and_decoded = 4
    assert len(asked) == 2 * 1 * 2 * 2 * 2 * sizes_and_decoded
    assert {cell.line.rate_mbit for cell in asked} == {2500.0}


def test_what_the_default_matrix_lacks_is_an_error_that_names_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--rtt-ms", "5", "--list"]) == 1
    assert "--all has every combination" in capsys.readouterr().err


def test_only_what_hands_out_images_decodes() -> None:
    cells = chosen_cells(parse(["--decode", "yes", "--rtt-ms", "30"]))
    assert {LOADER, PAPER, "webdataset"} <= {cell.peer for cell in cells}
    assert not {PULL, IPERF3, RAW_TCP, NGINX} & {cell.peer for cell in cells}


def test_options_choose_among_the_cells_of_a_named_selection() -> None:
    cells = chosen_cells(parse(["--goals", "--peers", "emlio,iperf3", "--rtt-ms", "100"]))
    assert {cell.peer for cell in cells} == {LOADER, IPERF3}
    assert {cell.line.rtt_ms for cell in cells} == {100.0}


def test_a_setting_takes_the_place_of_its_variants() -> None:
    arguments = ["--goals", "--peers", "iperf3", "--rtt-ms", "100", "--rate-mbit", "1000"]
    assert len(chosen_cells(parse([*arguments[:-1], "5000"]))) == 2
    (cell,) = chosen_cells(parse([*arguments, "--set", "iperf3.streams=12"]))
    assert cell.settings == (("streams", 12),)


def test_rounds_go_forwards_and_backwards_line_by_line() -> None:
    cells = [Cell(line, USUAL, peer) for line in (FAR, NEAR) for peer in ("emlio", "webdataset")]
    (block,) = blocks(cells)
    assert turns(block, 0) == [cells[2:], cells[:2]]  # the nearer line first
    assert turns(block, 1) == [cells[1::-1], cells[:1:-1]]


# What is kept


@pytest.fixture
def fake_runs(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """Runs that make up their rows; in the order in which they were."""
    ran: list[Cell] = []

    class NoLab:
        def __enter__(self) -> "NoLab":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def run(self: Runner, lab: object, cell: Cell, number: int) -> dict[str, Any]:
        ran.append(cell)
        return made_row()

    monkeypatch.setattr(Runner, "_run_cell", run)
    monkeypatch.setattr(Runner, "_lab", lambda self, line: NoLab())
    monkeypatch.setattr(Runner, "_image_set", lambda self, cell, amount: None)
    return ran


def runner(store: Store, cells: Sequence[Cell], tmp_path: Path, **plan: Any) -> Runner:
    tools = Tools(Environments(tmp_path), tmp_path / "emlio")
    quiet: dict[str, Any] = {"say": lambda text: None, **plan}
    return Runner(Plan(cells, **quiet), store, tools, tmp_path, "c0ffee")


def test_finished_runs_of_a_file_are_not_repeated(fake_runs: list[Cell], tmp_path: Path) -> None:
    cells = [Cell(FAR, USUAL, LOADER), Cell(FAR, USUAL, PAPER)]
    path = tmp_path / "results.json"
    first = Store(path)
    add(first, LOADER, [made_row(), made_row()])
    first.add(cells[1], 0, {"failure": "it did not start", "date": "", "commit": ""})
    again = Store.load(path)
    assert runner(again, cells, tmp_path, rounds=2).run()
    assert fake_runs == [cells[1], cells[1]]  # what failed is tried again
    assert len(Store.load(path).rows()) == 4


def test_every_row_is_in_the_file_when_a_run_is_interrupted(
    fake_runs: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    cells = [Cell(FAR, USUAL, LOADER), Cell(FAR, USUAL, PAPER)]
    made = Runner._run_cell

    def interrupted(self: Runner, lab: Any, cell: Cell, number: int) -> dict[str, Any]:
        if cell.peer == PAPER:
            raise KeyboardInterrupt
        return made(self, lab, cell, number)

    monkeypatch.setattr(Runner, "_run_cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner(Store(path), cells, tmp_path).run()
    assert [cell.peer for cell, _ in Store.load(path).rows()] == [LOADER]


def test_nothing_begins_when_time_is_over(fake_runs: list[Cell], tmp_path: Path) -> None:
    cells = [Cell(FAR, USUAL, LOADER)]
    made = runner(Store(), cells, tmp_path, for_s=-1.0)
    assert not made.run()
    assert not fake_runs
    assert len(made.unfinished()) == 5


def test_everything_is_run_once_before_anything_is_run_twice(
    fake_runs: list[Cell], tmp_path: Path
) -> None:
    lossy = Line(30.0, 5000.0, 0.1)  # another block
    cells = [Cell(line, USUAL, peer) for line in (FAR, lossy) for peer in (LOADER, PAPER)]
    assert runner(Store(), cells, tmp_path, rounds=2).run()
    assert fake_runs[:4] == cells
    assert sorted(map(str, fake_runs[4:])) == sorted(map(str, cells))


def test_a_line_that_cannot_be_made_does_not_keep_others_from_being_run(
    fake_runs: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, cubic = Runner._lab, Line(30.0, 5000.0, 0.0, "cubic")

    def lab(self: Runner, line: Line) -> Any:
        if line == cubic:
            raise LabError("this kernel has no cubic, only reno")
        return made(self, line)

    monkeypatch.setattr(Runner, "_lab", lab)
    cells = [Cell(line, USUAL, LOADER) for line in (cubic, FAR)]
    store = Store()
    assert runner(store, cells, tmp_path, rounds=1).run()
    assert fake_runs == [cells[1]]
    assert store.failures() == {(cells[0], 0): "this kernel has no cubic, only reno"}


def test_an_interrupted_round_is_finished_before_the_next(
    fake_runs: list[Cell], tmp_path: Path
) -> None:
    cells = [Cell(FAR, USUAL, LOADER), Cell(FAR, USUAL, PAPER)]
    store = Store()
    add(store, LOADER, [made_row()])
    assert runner(store, cells, tmp_path, rounds=2).run()
    assert fake_runs[0] == cells[1]
    assert len(fake_runs) == 3


def test_what_is_neither_quickest_nor_leanest_is_not_run_again() -> None:
    store, line = Store(), Line(100.0, 5000.0)
    loaders = {
        "webdataset": cpu_row(1.0, 3.0, images_per_s=1400.0),
        "tfdata": cpu_row(1.0, 1.0, images_per_s=400.0),  # the leanest
        "litdata": cpu_row(5.0, 5.0, images_per_s=1000.0),  # not far behind
        "spdl": cpu_row(5.0, 5.0, images_per_s=500.0),
        "torch-nfs": cpu_row(9.0, 9.0, images_per_s=30.0),
        LOADER: cpu_row(0.5, 0.5, images_per_s=5000.0),
    }
    for at in (line, FAR):
        for peer, row in loaders.items():
            add(store, peer, [row], at)
    beaten = [peer for peer in loaders if is_beaten(Cell(line, USUAL, peer), store)]
    assert beaten == ["spdl", "torch-nfs"]
    # Where a goal is about it, it is run again.
    assert not is_beaten(Cell(FAR, USUAL, "torch-nfs"), store)
    assert not is_beaten(Cell(Line(0.1, 5000.0), USUAL, "spdl"), store)


def test_settings_that_are_beaten_are_not_run_again() -> None:
    store = Store()
    streams = [(("streams", n),) for n in (8, 16, AS_EMLIO)]
    for settings_of, rate in zip(streams, (300.0, 500.0, 100.0), strict=True):
        store.add(Cell(FAR, USUAL, IPERF3, settings_of), 0, made_row(mb_per_s=rate, images_per_s=0))
    beaten = [is_beaten(Cell(FAR, USUAL, IPERF3, settings_of), store) for settings_of in streams]
    assert beaten == [True, False, False]  # as many as EMLIO had is a goal's


def test_goals_leave_out_in_later_rounds_what_is_beaten() -> None:
    store = Store()
    cells = [Cell(FAR, USUAL, peer) for peer in ("webdataset", "spdl")]
    add(store, "webdataset", [made_row()])
    add(store, "spdl", [cpu_row(9.0, 9.0, images_per_s=1.0)])
    plan = Plan(cells, rounds=2, best_only=True)
    assert [list(plan.left(store, n)) for n in (0, 1)] == [[], [[cells[0]]]]
    plan.best_only = False
    assert len(next(plan.left(store, 1))) == 2


def test_the_estimate_is_what_it_took_before_or_a_guess() -> None:
    plan = Plan([], run_s=8.0)
    slow, ours = Cell(Line(100.0, 5000.0), USUAL, "torch-sshfs"), Cell(FAR, USUAL, LOADER)
    assert 25 < estimate_s(slow, plan, Store()) < 40
    assert 4 < estimate_s(ours, plan, Store()) < 9
    store = Store()
    add(store, LOADER, [made_row(wall_s=5.5)])
    assert estimate_s(ours, plan, store) == 5.5


def test_a_plan_is_printed_and_nothing_is_run(
    fake_runs: list[Cell], tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--goals", "--peers", "emlio", "--plan", "--emlio", str(tools.emlio)]
    assert main(arguments) == 0
    assert not fake_runs
    said = capsys.readouterr().out
    assert "| 1 Gbit/s, stock TCP settings, images of 100kb | 0.1, 30, 100 | 3 | 15 |" in said
    assert "runs are left, at most" in said


def test_rows_of_a_peer_can_be_made_again() -> None:
    store = Store()
    add(store, LOADER, [made_row()])
    add(store, PAPER, [made_row()])
    store.forget([LOADER])
    assert [cell.peer for cell, _ in store.rows()] == [PAPER]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"results": []}')
    with pytest.raises(BenchmarkError, match=r"other\.json has no results"):
        Store.load(tmp_path / "other.json")


def test_iperf3_gets_as_many_streams_as_emlio_had() -> None:
    store = Store()
    cell = Cell(FAR, USUAL, IPERF3, (("streams", AS_EMLIO),))
    assert store.streams_of_emlio(cell) is None
    add(store, LOADER, [made_row(connections=9), made_row(connections=13)])
    add(store, LOADER, [made_row(connections=30)], Line(100.0, 5000.0))
    assert store.streams_of_emlio(cell) == 12


def test_a_real_run_over_a_link_says_what_link_and_machine_did(
    tools: Tools, tmp_path: Path
) -> None:
    try:
        find_emulator()
        with Lab(Topology.pair(symmetric_link()), backend="emulator"):
            pass
    except LabError as error:
        pytest.skip(f"no laboratory here: {error}")
    line = Line(10.0, 1000.0)
    cells = [Cell(line, Workload(10_000), PULL), Cell(line, Workload(10_000), IPERF3)]
    cells = [cell for cell in cells if not PEERS[cell.peer].missing(tools)]
    store = Store(tmp_path / "results.json")
    plan = Plan(cells, rounds=1, amount=Amount(300, 2), say=lambda text: None)
    assert Runner(plan, store, tools, tmp_path / "images", "c0ffee").run()
    assert not store.failures()
    row = Store.load(tmp_path / "results.json").rows()[cells[0], 0]
    assert (row["images"], len(row["epoch_seconds"])) == (600, 2)
    assert row["connections"] > 1  # streams, and one for control
    assert 0 <= row["idle_share"] <= 1
    assert 0 <= row["foreign_share"] <= 1
    assert row["link"]["queue_bytes"] == 1_250_000  # a round trip of 1 Gbit/s
    assert row["emulator_cpu_s"] > 0


# What it means


def test_a_ratio_is_made_within_a_round() -> None:
    store = Store()
    add(store, LOADER, [made_row(steady_wire_mb_per_s=v) for v in (100.0, 50.0, 90.0)])
    add(store, IPERF3, [made_row(steady_wire_mb_per_s=v) for v in (100.0, 50.0)], streams=8)
    result = found(store)["emlio_over_iperf3_30ms_5g"]
    assert (result.value, result.n, result.sd) == (1.0, 2, 0.0)


def test_iperf3_and_the_papers_design_are_taken_at_their_best() -> None:
    store = Store()
    add(store, LOADER, [made_row()])
    for streams, rate in ((4, 60.0), (8, 125.0)):
        add(store, IPERF3, [made_row(steady_wire_mb_per_s=rate)], streams=streams)
    for threads, rate in ((4, 500.0), (8, 400.0)):
        add(store, PAPER, [made_row(images_per_s=rate)], threads=threads)
    assert found(store)["emlio_over_iperf3_30ms_5g"].value == pytest.approx(0.8)
    assert found(store)["emlio_over_paper_python_30ms_5g"].value == pytest.approx(2.0)


def test_with_loss_iperf3_has_the_same_number_of_streams() -> None:
    store, lossy = Store(), Line(30.0, 5000.0, 0.1)
    add(store, LOADER, [made_row()], lossy)
    add(store, IPERF3, [made_row(steady_wire_mb_per_s=110.0)], lossy, streams=AS_EMLIO)
    add(store, IPERF3, [made_row(steady_wire_mb_per_s=500.0)], lossy, streams=16)
    assert found(store)["emlio_over_iperf3_loss"].value == pytest.approx(100 / 110)


def test_the_best_peer_is_a_released_one() -> None:
    store = Store()
    add(store, LOADER, [cpu_row(0.5, 0.5)])
    add(store, PAPER, [made_row(images_per_s=10_000.0)])
    add(store, "webdataset", [cpu_row(0.1, 4.9, images_per_s=500.0)])
    add(store, "tfdata", [cpu_row(1.0, 1.0, images_per_s=400.0)])
    made = found(store)
    assert made["emlio_over_best_peer_30ms_5g"].value == pytest.approx(2.0)
    assert made["emlio_over_best_peer_30ms_5g"].settings["theirs"]["what"] == "webdataset"
    # The leanest is another one.
    assert made["cpu_over_best_peer"].value == pytest.approx(0.5)
    assert made["cpu_over_best_peer"].settings["theirs"]["what"] == "tfdata"


def test_costs_are_those_of_emlio_pull_beside_plain_sockets() -> None:
    store = Store()
    add(store, LOADER, [cpu_row(9.0, 9.0)])
    add(store, PULL, [cpu_row(0.3, 0.2, first_batch_s=0.190)])
    add(store, RAW_TCP, [cpu_row(0.2, 0.2, first_batch_s=0.160)], streams=AS_EMLIO)
    add(store, NGINX, [cpu_row(0.2, 5.0)], streams=AS_EMLIO)
    made = found(store)
    assert made["cpu_over_raw_tcp"].value == pytest.approx(1.25)
    assert made["server_cpu_over_nginx"].value == pytest.approx(1.5)
    assert made["first_batch_extra_rtts"].value == pytest.approx(1.0)  # 30 ms


def test_epochs_are_compared_without_the_first_and_the_first_by_itself() -> None:
    store = Store()
    add(store, LOADER, [made_row(epoch_seconds=[4.4, 4.1, 4.1])], FAR, LONG_EPOCHS)
    add(store, LOADER, [made_row(epoch_seconds=[4.0, 4.0, 4.2])], NEAR, LONG_EPOCHS)
    made = found(store)
    assert made["epoch_30ms_over_0ms_5g"].value == pytest.approx(1.0)
    assert made["first_epoch_30ms_over_0ms_5g"].value == pytest.approx(1.1)


DISTURBED = {"idle_share": 0.02, "foreign_share": 0.3}


def test_disturbed_rows_are_shown_but_not_judged() -> None:
    store = Store()
    add(store, LOADER, [made_row(), made_row(**DISTURBED)])
    add(store, PAPER, [made_row(), made_row(images_per_s=1.0)])
    result = found(store)["emlio_over_paper_python_30ms_5g"]
    assert (result.value, result.n, result.settings["left_out"]) == (1.0, 1, 1)
    busy = Store()
    add(busy, LOADER, [made_row(**DISTURBED)])
    add(busy, IPERF3, [made_row()])
    result = found(busy)["emlio_over_iperf3_30ms_5g"]
    assert (result.value, result.settings["judged"]) == (1.0, False)
    assert metrics.judgement(result).startswith("yes (not judged")


@pytest.mark.parametrize(
    ("idle", "foreign", "late_us", "counts", "cpu_bound"),
    [
        (0.50, 0.00, 20.0, True, False),
        (0.15, 0.40, 20.0, True, False),  # there was enough left
        (0.02, 0.04, 20.0, True, True),  # by its own doing
        (0.02, 0.20, 20.0, False, False),  # others had it
        (0.02, 0.04, 790.0, True, True),
        (0.02, 0.04, 900.0, False, False),  # the emulator did not get its time: 30 ms
    ],
)
def test_a_row_counts_unless_others_or_the_laboratory_were_felt(
    idle: float, foreign: float, late_us: float, counts: bool, cpu_bound: bool
) -> None:
    store = Store()
    shares = {"idle_share": idle, "foreign_share": foreign, "emulator_late_us": late_us}
    add(store, LOADER, [made_row(**shares)])
    (row,) = store.rows().values()
    assert (metrics.counts(row), metrics.is_cpu_bound(row)) == (counts, cpu_bound)


def test_what_keeps_all_processors_busy_is_judged_and_marked() -> None:
    store, line = Store(), Line(30.0, 0.0)
    add(store, LOADER, [made_row(idle_share=0.01, images_per_s=8000.0)], line)
    add(store, "webdataset", [made_row(idle_share=0.3, images_per_s=1600.0)], line)
    result = found(store)["emlio_over_best_peer_30ms"]
    assert (result.value, metrics.judgement(result)) == (5.0, "yes")
    assert metrics.cpu_bound_sides(result) == [LOADER]
    assert tables.versus(result) == "emlio by webdataset; all processors busy: emlio"


def test_lateness_is_that_of_the_run() -> None:
    def side(frames: int, mean_us: float) -> dict[str, Any]:
        return {"delivered": {"frames": frames}, "late_us": {"mean": mean_us}}

    assert late_us(side(100, 900.0), side(300, 310.0)) == pytest.approx(15.0)
    assert late_us(side(100, 900.0), side(100, 900.0)) == 0.0


def test_decoded_and_raised_have_names_of_their_own() -> None:
    store, line = Store(), Line(30.0, 1000.0, 0.0, "raised")
    for peer in (LOADER, PAPER):
        add(store, peer, [made_row()], line, Workload(decode=True))
    assert "emlio_over_paper_python_30ms_1g_raised_decode" in found(store)
    assert "cpu_over_paper_python_1g_raised_decode" in found(store)


# The regression check


def checked_store(path: Path | None = None, **emlio: Any) -> Store:
    """Three rounds of --check in which all is well but what `emlio` says of EMLIO at 30 ms."""
    store = Store(path)
    far, near = Line(30.0, 1000.0), Line(0.1, 1000.0)
    add(store, PULL, [made_row(**emlio)] * 3, far)
    add(store, PULL, [made_row()] * 3, near)
    add(store, IPERF3, [made_row()] * 3, far)
    add(store, RAW_TCP, [made_row()] * 3, far, streams=AS_EMLIO)
    return store


def states(store: Store) -> dict[str, str]:
    return {verdict.metric: verdict.state for verdict in judge(store, load_bands())}


def test_a_sound_result_is_inside_of_all_bands() -> None:
    assert set(states(checked_store()).values()) == {"inside"}


@pytest.mark.parametrize(
    ("metric", "doctored"),
    [
        ("epoch_30ms_over_0ms_1g", {"epoch_seconds": [2.0, 2.0]}),
        ("emlio_over_iperf3_30ms_1g", {"steady_wire_mb_per_s": 40.0}),
        (
            "cpu_over_raw_tcp_1g",
            {name: {**made_row()[name], "cpu_s_per_gb": 3.0} for name in ("storage", "compute")},
        ),
    ],
)
def test_a_doctored_result_fails_and_is_named(
    metric: str, doctored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "check.json"
    checked_store(path, **doctored)
    assert main(["--check", "--report", str(path)]) == 1
    assert f"outside of their bands: {metric}" in capsys.readouterr().out


@pytest.mark.parametrize("busy", [{"idle_share": 0.05}, {"foreign_share": 0.5}])
def test_a_busy_machine_makes_no_false_alarm(
    busy: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "check.json"
    checked_store(path, epoch_seconds=[2.0, 2.0], **busy)
    assert main(["--check", "--report", str(path)]) == 0
    assert "not judged: the machine was too busy" in capsys.readouterr().out


def test_two_pairs_are_too_few_to_judge() -> None:
    store = Store()
    for cell in settings.check():
        for number in range(2):
            store.add(cell, number, made_row(epoch_seconds=[1.0, float(cell.line.rtt_ms)]))
    assert states(store)["epoch_30ms_over_0ms_1g"] == "not judged"


# What is shown


@pytest.fixture
def results_file(tmp_path: Path) -> Path:
    path = tmp_path / "results.json"
    store = Store(path)
    store.environment = {
        "cores": 2,
        "cpu": "a processor",
        "memory_gib": 8,
        "kernel": "6.1",
        "versions": {"emlio emlio": "emlio 0.1.0", "dali six": "1.17.0", "spdl spdl": "0.8.0"},
    }
    store.commands = ["benchmarks/wan/run --goals"]
    for line, first_batch_s in ((NEAR, 0.01), (FAR, 0.2)):
        for peer, rate in ((LOADER, 900.0), ("webdataset", 500.0)):
            values: dict[str, Any] = {"first_batch_s": first_batch_s, "mb_per_s": rate / 10}
            rows = [cpu_row(0.1, each / 1000, images_per_s=each, **values) for each in (rate, rate)]
            add(store, peer, rows, line)
    add(store, LOADER, [made_row()], FAR, LONG_EPOCHS)
    store.add(Cell(FAR, USUAL, "dali"), 0, {"failure": "no mount", "date": "", "commit": ""})
    return path


def test_tables_and_plots_go_into_a_document(results_file: Path, tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")
    for _ in range(2):  # again and again
        assert main(["--report", str(results_file), "--into", str(document)]) == 0
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "Versions: emlio 0.1.0, spdl 0.8.0." in text
    assert "benchmarks/wan/run --goals" in text
    assert "| `emlio_over_best_peer_30ms_5g` | ≥ 1.65 | 1.8 |" in text
    assert "`emlio_over_iperf3_30ms_1g` | ≥ 0.98 | not measured" in text
    assert "- dali_30ms_5g: no mount" in text
    for kind in ("throughput", "cpu", "first-batch"):
        assert f"![wan-{kind}](wan/wan-{kind}.svg)" in text
        assert (tmp_path / f"wan/wan-{kind}.svg").read_text().lstrip().startswith("<?xml")
        assert (tmp_path / f"wan/wan-{kind}.png").read_bytes().startswith(b"\x89PNG")


def test_a_document_without_marks_is_left_alone(results_file: Path, tmp_path: Path) -> None:
    document = tmp_path / "other.md"
    document.write_text("text\n")
    assert main(["--report", str(results_file), "--into", str(document)]) == 1
    assert document.read_text() == "text\n"


def test_cut_and_busy_rows_say_so() -> None:
    store = Store()
    add(store, LOADER, [made_row(**DISTURBED), made_row(idle_share=0.04)])
    add(store, "torch-nfs", [made_row(ended_by="seconds")])
    text = "\n".join(tables.place_table(metrics.Table(store.rows()), FAR, USUAL))
    assert "2, CPU-bound (1 disturbed)" in text
    assert "0.1 (cut)" in text


def test_a_part_that_is_left_has_an_exit_code_of_its_own(
    fake_runs: list[Cell], tools: Tools, tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    arguments = ["--goals", "--peers", "emlio", "--resume", str(path)]
    arguments += ["--emlio", str(tools.emlio), "--cache", str(tmp_path)]
    assert main([*arguments, "--for-s", "0"]) == EXIT_UNFINISHED
    assert main(arguments) == 0
    assert len(fake_runs) == 5 * len(chosen_cells(parse(["--goals", "--peers", "emlio"])))
    report = json.loads(path.read_text())
    assert {result["metric"] for result in report["results"]} >= {"epoch_30ms_over_0ms_5g"}
