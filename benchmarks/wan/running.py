# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs cells: how much of what each reads, on which line, and what is kept of it."""

import datetime
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.peers.harness import PEERS, run_once
from benchmarks.peers.images import ImageSet, make_images
from benchmarks.peers.node import Host
from benchmarks.peers.peer import Tools
from benchmarks.processes import BenchmarkError
from benchmarks.wan.planning import Amount, Plan
from benchmarks.wan.settings import AS_EMLIO, TCP_SETTINGS, Cell, Line
from benchmarks.wan.store import Store
from benchmarks.wan.watching import Watch
from benchmarks.wanlab import Lab, LabError, NotPermittedError, Topology
from benchmarks.wanlab.self_check import self_check

LIMIT_S = 300.0  # of a run; of one that is cut, so long beyond its time:
LIMIT_BEYOND_S = 90.0


class Runner:
    """Runs what a plan names and a store lacks."""

    def __init__(self, plan: Plan, store: Store, tools: Tools, images: Path, commit: str) -> None:
        self._plan = plan
        self._store = store
        self._tools = tools
        self._images = images
        self._commit = commit

    def unfinished(self) -> list[tuple[int, Cell]]:
        """What is left: round and cell."""
        return [
            (number, cell)
            for number in range(self._plan.rounds)
            for cells in self._plan.left(self._store, number)
            for cell in cells
        ]

    def run(self, after_round: Callable[[int], bool] = lambda number: False) -> bool:
        """Runs everything that is left, round after round, each row kept as it comes.

        Args:
            after_round: Called behind every round; a true answer ends the runs.

        Returns:
            False: time was over before everything was done.
        """
        for number in range(self._plan.rounds):
            for cells in list(self._plan.left(self._store, number)):
                if not self._run_line(cells, number):
                    return False
            if after_round(number):
                break
        return True

    def _run_line(self, cells: Sequence[Cell], number: int) -> bool:
        plan, line = self._plan, cells[0].line
        if plan.is_over:
            return False
        for cell in cells:  # before there is a lab: making images takes a while
            self._image_set(cell, self._plan.amount_of(cell, self._store))
        left = list(cells)
        try:
            with self._lab(line) as lab:
                if plan.check_links:
                    self._check_link(line, lab)
                while left:
                    if plan.is_over:
                        return False
                    self._keep(left[0], number, self._run_cell(lab, left[0], number))
                    del left[0]
        except NotPermittedError:
            raise
        except LabError as error:
            if str(error).startswith("void"):
                raise
            for cell in left:  # this line cannot be made, others may: no CUBIC in the kernel, say
                self._keep(cell, number, {"failure": str(error)})
        return True

    def _keep(self, cell: Cell, number: int, row: dict[str, Any]) -> None:
        self._store.add(cell, number, row)
        self._plan.say(f"round {number + 1}, {cell}: {describe(row)}")

    def _lab(self, line: Line) -> Lab:
        nodes = TCP_SETTINGS[line.tcp]
        if self._plan.congestion is not None:
            nodes = replace(nodes, congestion=self._plan.congestion)
        topology = Topology.pair(line.link(self._plan.queue_bytes)).with_nodes(nodes)
        return Lab(topology, "emulator")  # its counters are the clock of steady rates

    def _check_link(self, line: Line, lab: Lab) -> None:
        if self._store.is_checked(line):
            return
        verdict = self_check(lab)
        if not verdict.ok:
            raise LabError(f"void: the link{line.name} is not what it is set to\n{verdict.table()}")
        self._store.add_check(line, verdict.to_json())

    def _image_set(self, cell: Cell, amount: Amount) -> ImageSet:
        load = cell.workload
        size = None if load.decode else load.image_bytes
        return make_images(self._images, amount.count, size)

    def _run_cell(self, lab: Lab, cell: Cell, number: int) -> dict[str, Any]:
        """A row."""
        begin_s = time.monotonic()
        amount = self._plan.amount_of(cell, self._store)
        images = self._image_set(cell, amount)
        settings = self._settings(cell)
        bound_s = self._plan.bound_s(cell)
        row: dict[str, Any] = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": self._commit,
            "link": self._link_facts(lab),
        }
        try:
            with Watch(lab) as watch:
                row |= run_once(
                    *(cell.peer, images, amount.passes),
                    storage=Host(lab.address_of(lab.storage[0]), lab.storage[0].popen),
                    compute=Host(lab.address_of(lab.compute[0]), lab.compute[0].popen),
                    tools=self._tools,
                    settings=settings,
                    limit_s=LIMIT_S if bound_s is None else bound_s + LIMIT_BEYOND_S,
                    watch=watch.mark,
                    decode=cell.workload.decode,
                    bound_s=bound_s,
                )
            row["start_s"] = watch.began_s - begin_s  # before its clock
            row["wall_s"] = time.monotonic() - begin_s  # with all that comes before and after
            return row | watch.findings(row["storage"]["cpu_s"] + row["compute"]["cpu_s"])
        except (BenchmarkError, OSError, subprocess.SubprocessError) as error:
            return row | {"failure": str(error)}

    def _settings(self, cell: Cell) -> dict[str, Any]:
        settings = dict(cell.settings)
        if settings.get("streams") == AS_EMLIO:
            streams = self._store.streams_of_emlio(cell)
            if streams is None:
                del settings["streams"]
            else:
                settings["streams"] = streams
        return settings

    def _link_facts(self, lab: Lab) -> dict[str, Any]:
        node = lab.storage[0]
        return {
            "queue_bytes": lab.topology.links[0][2].queue_bytes("to_compute"),
            "congestion": lab.topology.node_settings.congestion
            or node.sysctl("net.ipv4.tcp_congestion_control"),
            "tcp_wmem": node.sysctl("net.ipv4.tcp_wmem"),
            "tcp_rmem": lab.compute[0].sysctl("net.ipv4.tcp_rmem"),
            "emulator_priority": lab.priority,
        }


def describe(row: dict[str, Any]) -> str:
    """A row for people."""
    if "failure" in row:
        return f"FAILED: {row['failure'][-300:]}"
    rate = f"{row['images_per_s']:,.0f} images/s, " if row.get("images_per_s") else ""
    steady = row["steady_wire_mb_per_s"]
    wire = "" if steady is None else f", steady {steady:,.1f} MB/s of wire"
    cpu = " + ".join(f"{row[node]['cpu_s_per_gb']:.2f}" for node in ("storage", "compute"))
    return (
        f"{rate}{row['mb_per_s']:,.1f} MB/s{wire}, {row['seconds']:.2f} s, CPU {cpu} s/GB, "
        f"idle {row['idle_share']:.0%}, others {row['foreign_share']:.0%}"
        f"{', cut' if row['ended_by'] == 'seconds' else ''}; "
        f"{row['start_s']:.1f} s to start, {row['wall_s']:.1f} s for all"
    )


def missing_peers(cells: Iterable[Cell], tools: Tools) -> dict[str, str]:
    """Peers that cannot run here, and what they lack."""
    lacking = {}
    for peer in dict.fromkeys(cell.peer for cell in cells):
        if missing := PEERS[peer].missing(tools):
            lacking[peer] = "; ".join(missing)
    return lacking
