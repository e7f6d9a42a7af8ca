# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""perf of the Linux kernel, for the scenario of the power PMU alone: it reads nothing else."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.energy_truth import work
from benchmarks.energy_truth.scenarios import Part
from benchmarks.energy_truth.tool import Reading, Tool
from benchmarks.report import first_line

PARTS: dict[str, Part] = {"power/energy-pkg/": "cpu", "power/energy-ram/": "dram"}


class Perf(Tool):
    name = "perf"
    title = "perf"
    settings = "perf stat -a -x, -e power/energy-pkg/,power/energy-ram/ PROGRAM"
    covers = frozenset({"cpu", "dram"})

    def missing(self) -> str:
        return "" if shutil.which("perf") else "perf (apt-get install linux-perf)"

    def version(self) -> str:
        return first_line("perf", "--version").removeprefix("perf version ")

    def command(self, scratch: Path) -> list[str]:
        return [
            *("perf", "stat", "--all-cpus", "--field-separator", ","),
            *("--event", ",".join(PARTS), "--", sys.executable, work.__file__),
        ]

    def reading(self, done: "subprocess.CompletedProcess[str]", scratch: Path) -> Reading:
        found = reading_of_lines(done.stderr)
        if not found.parts:
            return Reading({}, said=done.stderr, failed=True)
        begin, end = work.printed(done)
        return dataclasses.replace(found, begin_s=begin, end_s=end, said=done.stderr)


def reading_of_lines(text: str) -> Reading:
    """What the lines VALUE,Joules,EVENT,NANOSECONDS,... of perf have; its window is not there."""
    parts: dict[Part, float] = {}
    seconds = None
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > 3 and fields[1] == "Joules" and fields[2] in PARTS:
            parts[PARTS[fields[2]]] = float(fields[0])
            seconds = int(fields[3]) * 1e-9
    return Reading(parts, seconds=seconds)
