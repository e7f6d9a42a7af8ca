# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""perun: its command around the program, and its report in JSON."""

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.energy_truth import work
from benchmarks.energy_truth.scenarios import Part
from benchmarks.energy_truth.tool import Reading, Tool
from benchmarks.processes import BenchmarkError

PARTS: dict[str, Part] = {"cpu_energy": "cpu", "dram_energy": "dram", "gpu_energy": "gpu"}


class Perun(Tool):
    name = "perun"
    title = "perun"
    package = "perun"
    settings = "perun monitor --format json PROGRAM; sampling period 1 s, its default"

    def command(self, scratch: Path) -> list[str]:
        return [
            *(self.program("perun"), "monitor", "--format", "json", "--data-out", str(scratch)),
            work.__file__,
        ]

    def reading(self, done: "subprocess.CompletedProcess[str]", scratch: Path) -> Reading:
        window = work.printed(done)
        reports = list(scratch.glob("*.json"))
        if not reports:
            raise BenchmarkError(f"perun made no report: {done.stderr.strip()[-2000:]}")
        found = reading_of_report(json.loads(reports[0].read_text()))
        return dataclasses.replace(
            *(found,), begin_s=window[0], end_s=window[1], said=done.stdout + done.stderr
        )


def reading_of_report(report: dict[str, Any]) -> Reading:
    """What a report has of energy; the window is not in it, only its length."""

    def base(name: str) -> float | None:
        metric = report["metrics"].get(name)
        return None if metric is None else metric["sum"] * metric["metric_md"]["mag"]

    parts = {part: joules for name, part in PARTS.items() if (joules := base(name)) is not None}
    return Reading(parts, seconds=base("runtime"), headline=base("energy"))
