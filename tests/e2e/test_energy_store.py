# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What `emlio energy record` leaves in its store, and what reports make of it."""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import DEADLINE_S, Emlio, Energy, environment, wait_until
from daemon_process import Serve
from energy_agents import Agent, running_agent
from energy_host import TWO_SOCKETS_WATTS, EnergyHost, two_sockets
from scripted_influx import ScriptedInflux

CLOSE = 0.15  # the host's driver is a thread on a busy machine


def rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        return database.execute(query).fetchall()


def test_runs_are_kept_among_the_users_data_and_the_latest_is_reported(
    emlio: Emlio, tmp_path: Path, host: EnergyHost, energy: Energy
) -> None:
    # As command_line.environment has it.
    store = tmp_path / "data/emlio/energy.db"
    assert str(store) in emlio("energy", "report", code=1).stderr
    first = energy("record", "--root", host.root, "--", "sleep", "0.5")
    done = emlio("energy", "record", "--root", host.root, "--", "sleep", "1")
    assert f"is in {store}" in done.stderr
    runs = rows(store, "SELECT id, exit_status FROM run ORDER BY started_wall_ns")
    assert runs[0] == (first["run"]["id"], 0)
    assert first["store"] == str(store)
    assert len(runs) == 2
    # The joules of the report are those of the ticks and windows in the store.
    report = energy("report")
    assert [run["id"] for run in report["these"]["runs"]] == [runs[1][0]]
    (run,) = report["these"]["runs"]
    assert run["total"]["joules"] == pytest.approx(TWO_SOCKETS_WATTS * run["seconds"], rel=CLOSE)
    report = energy("report", first["run"]["id"])
    (run,) = report["these"]["runs"]
    assert run["total"]["joules"] == pytest.approx(first["total"]["joules"], rel=1e-6)
    assert emlio("energy", "export", "--table", "windows").stdout.count("\n") == 2


def test_a_run_goes_where_it_is_told_to_or_nowhere(
    emlio: Emlio, tmp_path: Path, host: EnergyHost, energy: Energy
) -> None:
    default = tmp_path / "data/emlio/energy.db"
    done = emlio("energy", "record", "--no-store", "--root", host.root, "--", "true")
    assert "is in" not in done.stderr
    store = tmp_path / "a/b/runs.db"
    result = energy("record", "--store", store, "--root", host.root, "--", "sleep", "0.5")
    assert result["store"] == str(store)
    assert rows(store, "SELECT id FROM run") == [(result["run"]["id"],)]
    assert not default.exists()


def test_a_store_that_cannot_be_written_stops_no_run(
    emlio: Emlio, tmp_path: Path, host: EnergyHost
) -> None:
    other = tmp_path / "data/emlio/energy.db"
    other.parent.mkdir(parents=True)
    other.write_text("something else\n")
    done = emlio("energy", "record", "--root", host.root, "--", "echo", "ran")
    assert done.stdout == "ran\n"
    assert "will not be in the store" in done.stderr
    done = emlio("energy", "record", "--json", "-", "--", "true")
    assert "is no store of energy runs" in json.loads(done.stdout)["store_cause"]
    assert other.read_text() == "something else\n"


@pytest.mark.parametrize(
    "args",
    [["record"], ["baseline", "--runs", "3"], ["stages"], ["stages", "--dither"]],
    ids=" ".join,
)
def test_no_command_is_started_whose_run_cannot_be_kept_where_it_was_said(
    emlio: Emlio, tmp_path: Path, host: EnergyHost, args: list[str]
) -> None:
    other = tmp_path / "other.db"
    other.write_text("something else\n")
    ran = tmp_path / "ran"
    where = ["--store", other, "--root", host.root, "--memory-check", "always", "--json", "-"]
    unnamed = emlio("energy", *args, "--store", "", "--", "touch", ran, code=2)
    assert "no name" in unnamed.stderr
    done = emlio("energy", *args, *where, "--", "touch", ran, code=2)
    error = json.loads(done.stdout)["error"]
    assert "--store" in error["message"]
    assert "is no store of energy runs" in error["message"]
    assert other.read_text() == "something else\n"
    assert not ran.exists()


def test_a_run_that_has_no_place_is_not_left_out_silently(emlio_bin: str, tmp_path: Path) -> None:
    report = tmp_path / "record.json"
    homeless = {key: value for key, value in os.environ.items() if key != "HOME"}
    homeless.pop("XDG_DATA_HOME", None)
    for args, cause in ([], "neither XDG_DATA_HOME nor HOME is set; fix: "), (["--no-store"], None):
        done = subprocess.run(
            [emlio_bin, "energy", "record", "--json", str(report), *args, "--", "true"],
            env=homeless,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        result = json.loads(report.read_text())
        assert result["store"] is None
        if cause is None:
            assert "store_cause" not in result
            assert "kept" not in done.stderr
        else:
            assert cause in result["store_cause"]
            assert cause in done.stderr


def test_samples_figures_and_clocks_of_every_node_are_in_the_store(
    emlio: Emlio, store: Path, energy: Energy, energy_here: Energy, two_hosts: Agent
) -> None:
    result = energy_here("record", "--node", two_hosts[1], "--", "sleep", "1.5")
    nodes = rows(store, "SELECT id, name, role, sampled, start_barrier_wall_ns FROM node")
    assert len(nodes) == 2
    there = nodes[1]
    assert (there[1], there[2]) == ("there", "compute")
    assert there[3] > 10
    assert there[4] > 0
    # How far its clock is from the coordinator's, and how well that is known.
    ((peer, offset_ns, bound_ns),) = rows(
        store, "SELECT peer, offset_ns, bound_ns FROM clock_offset"
    )
    assert peer == nodes[0][1]
    assert 0 < bound_ns < 1_000_000_000
    assert abs(offset_ns) <= bound_ns
    assert rows(store, "SELECT count(*) FROM clock GROUP BY node_id") == [(2,), (2,)]
    # Its samples, from before its part of the run to behind it, give the known power.
    (ticks, first_ns, last_ns) = rows(
        store,
        f"SELECT sum(ticks), min(first_ns), max(last_ns) FROM samples WHERE node_id={there[0]}",
    )[0]
    ((begin_ns, end_ns, joules),) = rows(
        store, f"SELECT begin_ns, end_ns, joules FROM window WHERE node_id={there[0]}"
    )
    assert ticks > 10
    assert first_ns < begin_ns < end_ns <= last_ns
    assert joules == pytest.approx(result["nodes"][0]["total"]["joules"], rel=1e-6)
    lines = emlio("energy", "export", "--store", store, "--format", "influx").stdout.splitlines()
    mine = [line for line in lines if ",node=there," in line and ",in_total=yes," in line]
    times = [int(line.rpartition(" ")[2]) for line in mine]
    sampled = sum(float(m[1]) for line in mine if (m := re.search(r"[ ,]delta_j=([0-9.]+)", line)))
    seconds = (max(times) - min(times)) * 1e-6
    assert sampled == pytest.approx(TWO_SOCKETS_WATTS * seconds, rel=CLOSE)
    # Reports are made of the store alone.
    report = energy("report", "--store", store)
    assert [node["name"] for node in report["nodes"]] == [nodes[0][1], "there"]
    (run,) = report["these"]["runs"]
    assert run["total"]["joules"] == pytest.approx(
        2 * TWO_SOCKETS_WATTS * run["seconds"], rel=CLOSE
    )
    assert not rows(store, "SELECT * FROM note")


def test_a_run_that_is_killed_has_the_samples_of_every_node(
    emlio_bin: str, tmp_path: Path, host: EnergyHost, store: Path, two_hosts: Agent
) -> None:
    process = subprocess.Popen(
        [
            *(emlio_bin, "energy", "record", "--root", str(host.root), "--store", str(store)),
            *("--node", two_hosts[1], "--", "sleep", "5"),
        ],
        stderr=subprocess.DEVNULL,
        env=environment(tmp_path),
    )

    def sampled_nodes() -> int:
        try:
            return len(
                rows(store, "SELECT sum(ticks) FROM samples GROUP BY node_id HAVING sum(ticks) > 9")
            )
        except sqlite3.OperationalError:
            return 0  # it is being made

    wait_until(lambda: sampled_nodes() == 2, "samples of both nodes were stored")
    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE_S)
    assert sampled_nodes() == 2
    assert rows(store, "SELECT ended_wall_ns FROM run") == [(None,)]
    assert rows(store, "SELECT count(*) FROM domain GROUP BY node_id") == [(5,), (5,)]


def test_a_node_that_is_lost_keeps_its_samples_and_has_no_joules(
    store: Path, energy: Energy, energy_here: Energy, two_hosts: Agent
) -> None:
    agent, endpoint = two_hosts
    script = f"sleep 2; kill -9 {agent.pid}; sleep 1"
    energy_here("record", "--node", endpoint, "--", "sh", "-c", script)
    assert rows(
        store,
        "SELECT node.name, window.state, joules, sum(ticks) > 5 FROM node "
        "JOIN window ON window.node_id = node.id JOIN samples ON samples.node_id = node.id "
        "WHERE node.name = 'there' GROUP BY node.id",
    ) == [("there", "unavailable", None, 1)]
    assert [kind for (kind,) in rows(store, "SELECT kind FROM note")] == ["node_lost"]
    report = energy("report", "--store", store)
    (run,) = report["these"]["runs"]
    assert run["total"]["joules"] is None


def test_a_host_whose_agent_ends_early_stays_one_node(
    emlio_bin: str, tmp_path: Path, store: Path, energy_here: Energy, two_hosts: Agent
) -> None:
    first, first_endpoint = two_hosts
    second_folder = tmp_path / "second"
    second_folder.mkdir()
    options = ("--root", tmp_path / "there", "--node", "there")
    with running_agent(emlio_bin, second_folder, *options) as (_, second_endpoint):
        result = energy_here(
            *("record", "--node", first_endpoint, "--node", second_endpoint),
            *("--", "sh", "-c", f"sleep 1; kill {first.pid}; sleep 1"),
        )
    assert result["run"]["total"]["joules"] == pytest.approx(
        2 * TWO_SOCKETS_WATTS * result["seconds"], rel=CLOSE
    )
    nodes = rows(store, "SELECT id, name FROM node")
    assert [name for _, name in nodes[1:]] == ["there"]
    there = nodes[1][0]
    ((joules,),) = rows(store, f"SELECT joules FROM window WHERE node_id={there} AND key='run'")
    assert joules == pytest.approx(TWO_SOCKETS_WATTS * result["seconds"], rel=CLOSE)
    ((ticks,),) = rows(store, f"SELECT sum(ticks) FROM samples WHERE node_id={there}")
    assert ticks > 5


def test_what_the_sinks_of_a_node_lost_is_in_the_store(
    emlio_bin: str, tmp_path: Path, store: Path, energy_here: Energy
) -> None:
    with (
        two_sockets(tmp_path / "there", boot_id="there") as there,
        ScriptedInflux(status=401) as influx,
        running_agent(
            *(emlio_bin, tmp_path, "--root", there.root, "--node", "there"),
            *("--influx-url", influx.url, "--influx-bucket", "energy"),
        ) as (_, endpoint),
    ):
        wait_until(lambda: len(influx.requests) > 0, "the agent sent something")
        result = energy_here("record", "--node", endpoint, "--", "sleep", "0.5")
    ((node, sink, target, sent, refused),) = rows(
        store,
        "SELECT name, sink, target, points_sent, points_refused FROM sink_report "
        "JOIN node ON node.id = node_id",
    )
    assert (node, sink, target, sent) == ("there", "influx", influx.url, 0)
    assert refused > 0
    (told,) = result["nodes"][0]["sinks"]
    assert told["points_refused"] == refused


def test_windows_of_other_processes_of_the_host_are_in_the_store(
    emlio_bin: str,
    shards: Path,
    serve: Serve,
    host: EnergyHost,
    store: Path,
    energy: Energy,
    energy_here: Energy,
) -> None:
    daemon = serve({"train": shards}, ["--energy-root", str(host.root)])
    pull = f"{emlio_bin} pull {daemon.endpoint}/train --batch-size 10 --epochs 2"
    result = energy_here("record", "--", "sh", "-c", f"{pull} && sleep 0.5")
    assert [node["state"] for node in result["nodes"]] == ["same_host"]
    # One host, and what both of its processes did.
    assert len(rows(store, "SELECT id FROM node")) == 1
    assert rows(
        store,
        "SELECT window.name, epoch, records_delivered, bytes_delivered, "
        "(SELECT count(*) FROM window_energy WHERE window_id = window.id) "
        "FROM window WHERE key != 'run' ORDER BY window.name, epoch",
    ) == [
        ("epoch", 0, 300, 300_000, 5),
        ("epoch", 1, 300, 300_000, 5),
        ("serve", 0, 300, 300_000, 5),
        ("serve", 1, 300, 300_000, 5),
    ]
    report = energy("report", "--store", store)
    assert {window["name"] for window in report["windows"]} >= {"epoch", "serve"}


def test_the_live_view_has_a_line_for_every_node(
    emlio_bin: str, tmp_path: Path, host: EnergyHost, two_hosts: Agent
) -> None:
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [
            *(emlio_bin, "energy", "record", "--live", "--no-store", "--root", str(host.root)),
            *("--node", two_hosts[1], "--", "sleep", "4"),
        ],
        stderr=other_end,
        env=environment(tmp_path),
    )
    os.close(other_end)
    shown = b""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
    os.close(terminal)
    assert process.wait(DEADLINE_S) == 0
    there = re.findall(rb"there: total ([0-9.]+) W  package-0 ([0-9.]+) W", shown)
    assert there, shown
    assert float(there[-1][0]) == pytest.approx(TWO_SOCKETS_WATTS, rel=0.3)
    assert float(there[-1][1]) == pytest.approx(50, rel=0.3)
