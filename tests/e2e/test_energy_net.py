# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Net energy of two hosts whose power is known, from baselines that are taken for real.

Baselines last a minute and there are three: this takes four minutes, of which next to nothing is
CPU time. EMLIO_LONG_TESTS=1 runs it; energy_reports_test.cc shows the same of simulated minutes.
"""

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from command_line import run_emlio
from energy_agents import running_agent
from energy_host import EnergyHost, Zone

IDLE_WATTS = {"compute": 60.0, "storage": 30.0}
MORE_WATTS = {"compute": 100.0, "storage": 20.0}
MEMORY_WATTS = 10.0
RUNS = 5
RUN_S = 8
CLOSE = 0.01
DEADLINE_S = 300  # against hangs only


def draw(host: EnergyHost, watts: float) -> None:
    new = host.root / "watts.new"
    new.write_text(f"{watts}")
    new.rename(host.root / "watts")


def made(folder: Path, name: str) -> EnergyHost:
    """One package, whose power a file says, and memory."""
    host = EnergyHost(
        folder / name,
        [
            Zone("intel-rapl:0", "package-0", IDLE_WATTS[name], watts_file="watts"),
            Zone("intel-rapl:0:0", "dram", MEMORY_WATTS),
        ],
        boot_id=name,
    )
    host.root.mkdir()
    draw(host, IDLE_WATTS[name])
    return host


@pytest.mark.skipif("EMLIO_LONG_TESTS" not in os.environ, reason="takes four minutes")
def test_two_hosts_are_net_of_baselines_of_three_minutes(emlio_bin: str, tmp_path: Path) -> None:
    store, out = tmp_path / "runs.emlio", tmp_path / "out.json"
    emlio = functools.partial(run_emlio, emlio_bin, tmp_path, deadline_s=DEADLINE_S)

    def energy(subcommand: str, *args: object) -> Any:
        emlio("energy", subcommand, "--store", store, "--json", out, *args)
        return json.loads(out.read_text())

    with made(tmp_path, "compute") as compute, made(tmp_path, "storage") as storage:
        with running_agent(emlio_bin, tmp_path, "--root", storage.root, "--node", "storage") as (
            _,
            endpoint,
        ):
            nodes = ["--root", compute.root, "--node", endpoint]
            baseline = energy("baseline", *nodes)["baseline"]
            draw(compute, IDLE_WATTS["compute"] + MORE_WATTS["compute"])
            draw(storage, IDLE_WATTS["storage"] + MORE_WATTS["storage"])
            runs = [
                energy("record", *nodes, "--", "sleep", RUN_S)["run"]["id"] for _ in range(RUNS)
            ]
        late_s = max(host.late_s(0, float("inf")) for host in (compute, storage))

    idle_watts = sum(IDLE_WATTS.values()) + 2 * MEMORY_WATTS
    assert baseline["runs"] == 3
    assert baseline["seconds"] >= 180
    assert baseline["watts"]["mean"] == pytest.approx(idle_watts, rel=CLOSE)

    report = energy("report", *runs)
    assert report["no_baseline"] == ""
    these = report["these"]
    assert these["counted"] == RUNS
    seconds = these["seconds"]["mean"]

    def expected(watts: float) -> Any:
        # A counter that stood still is not known better than for that time.
        return pytest.approx(watts * seconds, rel=CLOSE, abs=watts * late_s)

    more_watts = sum(MORE_WATTS.values())
    assert these["energy"]["net_joules"]["value"] == expected(more_watts)
    assert these["energy"]["total_joules"]["mean"] == expected(idle_watts + more_watts)
    for node, role in zip(report["nodes"], ("compute", "storage"), strict=True):
        assert node["net_joules"]["value"] == expected(MORE_WATTS[role])
    for domain in report["domains"]:
        if domain["what"].startswith("package"):
            role = "compute" if domain in report["domains"][:2] else "storage"
            assert domain["net_joules"]["value"] == expected(MORE_WATTS[role])
        else:
            assert domain["net_joules"]["value"] == pytest.approx(0, abs=CLOSE * 10 * seconds)
