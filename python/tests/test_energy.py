# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""emlio.energy: windows, runs, loaders, other processes."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import emlio
from emlio import energy
from processes import Daemon, emlio_executable

WATTS = {"package-0": 50.0, "dram-0": 10.0}
CLOSE = 0.15  # the host's own thread is late on a busy machine


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Path]:
    """A folder like /sys of a host with one socket, whose counters go on by themselves."""
    root = tmp_path / "host"
    zones = [("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "dram-0")]
    for folder, domain in zones:
        zone = root / "sys/class/powercap" / folder
        zone.mkdir(parents=True)
        (zone / "name").write_text(domain.replace("dram-0", "dram") + "\n")
        (zone / "max_energy_range_uj").write_text("262143328850\n")
        (zone / "energy_uj").write_text("1000000\n")
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text("vendor_id\t: GenuineIntel\nflags\t\t: fpu\n")
    stop = threading.Event()

    def drive() -> None:
        begin = time.monotonic()
        files = [
            (root / "sys/class/powercap" / folder / "energy_uj").open("r+b", buffering=0)
            for folder, _ in zones
        ]
        while not stop.wait(0.003):
            for file, (_, domain) in zip(files, zones, strict=True):
                value = int(1e6 + WATTS[domain] * (time.monotonic() - begin) * 1e6)
                file.seek(0)
                file.write(f"{value:020d}\n".encode())
        for file in files:
            file.close()

    thread = threading.Thread(target=drive)
    thread.start()
    yield root
    stop.set()
    thread.join()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A host without counters."""
    root = tmp_path / "bare"
    (root / "proc").mkdir(parents=True)
    (root / "proc/cpuinfo").write_text("vendor_id\t: GenuineIntel\nflags\t\t: fpu\n")
    return root


def test_windows_have_the_energy_of_their_time(host: Path) -> None:
    with energy.measure(root=str(host), interval_ms=20, name="job") as run:
        with energy.window("outer", stage="R", epoch=3, rank=1) as outer:
            with energy.window("inner") as inner:
                time.sleep(1.2)
                so_far = outer.energy()
            time.sleep(0.8)
            outer.add(records=5, bytes=500)
        used = outer.energy()
        assert used is not None
        assert so_far is not None
        assert so_far.cut
        assert not used.cut
        assert (used.name, used.stage, used.epoch, used.rank) == ("outer", "R", 3, 1)
        assert (used.records, used.bytes) == (5, 500)
        assert used.seconds >= 2.0
        assert used.total.state == "measured"
        assert used.total.joules == pytest.approx(60 * used.seconds, rel=CLOSE)
        assert used["dram-0"].joules == pytest.approx(10 * used.seconds, rel=CLOSE)
        with pytest.raises(KeyError):
            used["dram-7"]
        within = inner.energy()
        assert within is not None
        assert within.epoch is None
    report = run.report
    assert [one.name for one in report.windows] == ["outer", "inner"]
    assert report.energy.name == "job"
    assert report.total.complete
    assert report.total.joules == report.energy.total.joules
    assert run.stop() is report
    assert outer.energy() == report.windows[0]


def test_without_counters_everything_works_and_nothing_is_made_up(bare: Path) -> None:
    with energy.measure(root=str(bare)) as run, energy.window("read") as window:
        pass
    used = window.energy()
    assert used is not None
    assert used.total.joules is None
    for one in used.energies:
        assert one.joules is None
        assert one.uncertainty_joules is None
        assert one.state == "unavailable"
        assert one.cause
        assert one.fix
    assert not run.report.total.complete
    assert run.report.total.joules is None
    assert list(run.report.total.missing) == [run.report.node]


def test_without_a_run_windows_do_nothing() -> None:
    with energy.window("read") as window:
        pass
    assert window.energy() is None
    assert energy.stop() is None


def test_there_is_one_run_at_a_time(bare: Path) -> None:
    run = energy.start(root=str(bare))
    try:
        with pytest.raises(RuntimeError, match="already"):
            energy.start(root=str(bare))
    finally:
        assert energy.stop() == run.report
    energy.start(root=str(bare)).stop()
    energy.start(root=str(bare))
    energy.stop()


def test_what_cannot_be_is_refused(bare: Path) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match="interval"):
        energy.start(root=str(bare), interval_ms=1)
    assert energy.stop() is None


def test_a_node_that_is_not_there_makes_the_total_incomplete(host: Path) -> None:
    with energy.measure(
        root=str(host), interval_ms=20, nodes=["127.0.0.1:1"], connect_timeout_s=0.2
    ) as run:
        time.sleep(1.5)
    assert run.report.energy.total.joules is not None
    assert not run.report.total.complete
    assert run.report.total.joules is None
    assert run.report.nodes[0].state == "unreachable"
    assert run.report.nodes[0].energy is None


def test_windows_may_be_used_from_many_threads(host: Path) -> None:
    with energy.measure(root=str(host), interval_ms=10) as run:

        def work() -> None:
            for i in range(200):
                with energy.window("step", epoch=i):
                    pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(run.report.windows) == 800


def test_a_fork_measures_nothing_and_may_measure_by_itself(host: Path) -> None:
    with (
        energy.measure(root=str(host), interval_ms=20) as run,
        energy.window("parent") as window,
    ):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with energy.window("child") as own:
                    pass
                assert own.energy() is None
                with pytest.raises(emlio.UnavailableError):
                    window.energy()
                with (
                    energy.measure(root=str(host), interval_ms=20) as mine,
                    energy.window("mine"),
                ):
                    time.sleep(0.2)
                assert mine.report.windows[0].name == "mine"
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    assert [one.name for one in run.report.windows] == ["parent"]


def test_a_process_ends_though_a_run_goes_on(host: Path) -> None:
    script = (
        "import sys; from emlio import energy\n"
        f"energy.start(root={str(host)!r}, interval_ms=10)\n"
        "energy.window('open').__enter__()\n"
        "print('ran')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_data_that_this_process_reads_itself_have_no_storage_host(
    host: Path, hundred: Path
) -> None:
    with energy.measure(root=str(host), interval_ms=20) as run:
        with emlio.Loader(str(hundred / "*.tfrecord"), batch_size=10) as loader:
            assert sum(len(batch) for batch in loader) == 100
        time.sleep(1.5)
    assert run.report.nodes == ()
    assert run.report.total.complete
    assert run.report.total.joules == run.report.energy.total.joules
    assert run.report.total.joules is not None


def test_epochs_of_loaders_are_windows_and_their_storage_host_is_in_the_total(
    host: Path, hundred: Path, tmp_path: Path
) -> None:
    (host / "proc/sys/kernel/random").mkdir(parents=True)
    (host / "proc/sys/kernel/random/boot_id").write_text("here\n")
    storage = tmp_path / "storage"
    (storage / "proc/sys/kernel/random").mkdir(parents=True)
    (storage / "proc/sys/kernel/random/boot_id").write_text("there\n")
    (storage / "proc/cpuinfo").write_text("vendor_id\t: GenuineIntel\nflags\t\t: fpu\n")
    daemon = Daemon(hundred, tmp_path, "--energy-root", str(storage))
    try:
        with energy.measure(root=str(host), interval_ms=20) as run:
            loader = emlio.Loader(daemon.url, batch_size=10)
            for _ in range(2):
                assert sum(len(batch) for batch in loader) == 100
            time.sleep(1.5)
            for _ in loader:
                break  # an epoch that is not read to its end
            loader.close()
    finally:
        daemon.kill()
    report = run.report
    epochs = [one for one in report.windows if one.name == "epoch"]
    assert [one.epoch for one in epochs] == [0, 1, 2]
    assert [one.records for one in epochs[:2]] == [100, 100]
    assert epochs[2].records < 100
    assert all(one.rank == 0 for one in epochs)
    (node,) = report.nodes
    assert node.role == "storage"
    assert node.state == "whole"
    assert node.joined_late
    assert node.clock_offset_ms is not None
    assert {one.epoch for one in node.windows if one.name == "serve"} >= {0, 1}
    # It has no counters: the total says so and is not that of this host alone.
    assert report.energy.total.joules is not None
    assert not report.total.complete
    assert report.total.joules is None
    assert list(report.total.missing) == [node.name]


def test_under_record_windows_are_told_to_it(bare: Path, tmp_path: Path) -> None:
    script = (
        "from emlio import energy\n"
        "with energy.window('read', stage='R', epoch=4, rank=2) as window:\n"
        "    window.add(records=3)\n"
        "used = window.energy()\n"
        "assert used.records == 3\n"
        "assert used.total.joules is None\n"
        "assert all(one.joules is None and one.cause for one in used.energies)\n"
    )
    out = tmp_path / "record.json"
    subprocess.run(
        [
            *(emlio_executable(), "energy", "record", "--root", str(bare), "--json", str(out)),
            *("--", sys.executable, "-c", script),
        ],
        check=True,
        timeout=60,
        capture_output=True,
    )
    (window,) = json.loads(out.read_text())["windows"]
    assert (window["name"], window["stage"], window["epoch"], window["rank"]) == ("read", "R", 4, 2)
    assert window["records"] == 3


def test_under_record_a_process_learns_the_joules_of_its_windows(
    host: Path, tmp_path: Path
) -> None:
    script = (
        "import json, os, time\n"
        "import emlio\n"
        "from emlio import energy\n"
        "told = []\n"
        "def measured(window):\n"  # as soon as samples that may be late allow
        "    until = time.monotonic() + 30\n"  # against hangs only
        "    while True:\n"
        "        energy_of = window.energy()\n"
        "        if energy_of.total.joules is not None or time.monotonic() > until:\n"
        "            return energy_of\n"
        "        time.sleep(0.05)\n"
        "for epoch in range(3):\n"
        "    with energy.window('train', epoch=epoch) as window:\n"
        "        time.sleep(0.3)\n"
        "        so_far = measured(window)\n"
        "        assert so_far.cut and 0 < so_far.total.joules\n"
        "    used = measured(window)\n"
        "    total = used.total\n"
        "    told.append([used.seconds, total.joules, total.uncertainty_joules,\n"
        "                 used['dram-0'].joules])\n"
        "child = os.fork()\n"
        "if child == 0:\n"  # has windows of its own, and none of its parent's
        "    code = 1\n"
        "    try:\n"
        "        with energy.window('of the child') as own:\n"
        "            time.sleep(0.1)\n"
        "        assert own.energy().name == 'of the child'\n"
        "        try:\n"
        "            window.energy()\n"
        "        except emlio.NotFoundError:\n"
        "            code = 0\n"
        "    finally:\n"
        "        energy._end()\n"
        "        os._exit(code)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "print(json.dumps(told))\n"
    )
    out = tmp_path / "record.json"
    done = subprocess.run(
        [
            *(emlio_executable(), "energy", "record", "--root", str(host), "--json", str(out)),
            *("--interval-ms", "20", "--", sys.executable, "-c", script),
        ],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    recorded = json.loads(out.read_text())["windows"]
    assert [one["epoch"] for one in recorded[:3]] == [0, 1, 2]
    for (seconds, joules, uncertainty, dram), one in zip(told, recorded, strict=False):
        assert joules == pytest.approx(60 * seconds, rel=CLOSE)
        # What the process is told is what is recorded, but for readings that came later.
        assert seconds == pytest.approx(one["seconds"], rel=1e-6)
        assert joules == pytest.approx(
            one["total"]["joules"],
            rel=0.01,
            abs=uncertainty + one["total"]["uncertainty_joules"],
        )
        assert dram == pytest.approx(10 * seconds, rel=CLOSE)


def test_ranks_started_by_spawn_share_one_measurement(tmp_path: Path) -> None:
    script = (
        "import time\n"
        "from emlio import energy\n"
        "with energy.measure() as run:\n"
        "    with energy.window('rank'):\n"
        "        time.sleep(0.3)\n"
        "print(len(run.report.windows))\n"
    )
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(3)
    ]
    assert [rank.communicate(timeout=60)[0] for rank in ranks] == ["1\n"] * 3
    assert len(list((tmp_path / "emlio").glob("energy-*"))) == 1
