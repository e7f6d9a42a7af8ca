# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO: its command around the program, and what it writes as JSON."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.energy_truth import work
from benchmarks.energy_truth.scenarios import Part
from benchmarks.energy_truth.tool import Reading, Tool
from benchmarks.processes import BenchmarkError
from benchmarks.report import first_line

PARTS: dict[str, Part] = {"package": "cpu", "dram": "dram", "gpu": "gpu"}


class Emlio(Tool):
    name = "emlio"
    title = "EMLIO"
    settings = "emlio energy record --memory-check never --json - -- PROGRAM"
    lead_s = 4.0

    def missing(self) -> str:
        return "" if self.installed.emlio.exists() else f"{self.installed.emlio}: --emlio names one"

    def version(self) -> str:
        return first_line(str(self.installed.emlio), "--version").removeprefix("emlio ")

    def command(self, scratch: Path) -> list[str]:
        # Of processes on one host one reads the counters for all. Here several hosts are one.
        share = scratch / "share"
        share.mkdir(mode=0o700, exist_ok=True)
        # The memory of these hosts does not feel what the machine does: EMLIO would not count it.
        record = ["energy", "record", "--memory-check", "never", "--no-store", "--json", "-", "--"]
        command = [str(self.installed.emlio), *record, sys.executable, work.__file__]
        return ["env", f"XDG_RUNTIME_DIR={share}", *command]

    def reading(self, done: "subprocess.CompletedProcess[str]", scratch: Path) -> Reading:
        try:
            return reading_of_record(json.loads(done.stdout))
        except ValueError as error:
            said = (done.stderr or done.stdout).strip()[-2000:]
            raise BenchmarkError(f"emlio ({done.returncode}): {said}") from error


def reading_of_record(record: dict[str, Any]) -> Reading:
    """A record's total, by parts; none at all where it has no total, and then the causes."""
    begin = record["begin_monotonic_ns"] * 1e-9
    end = begin + record["seconds"]
    counted = [domain for domain in record["domains"] if domain["in_total"]]
    if record["total"]["joules"] is None:
        causes = [f"{domain['id']}: {domain.get('cause')}" for domain in counted]
        return Reading({}, begin, end, record["seconds"], said="\n".join(causes))
    parts: dict[Part, float] = {}
    for domain in counted:
        if domain["joules"] is not None:
            part = PARTS[domain["kind"]]
            parts[part] = parts.get(part, 0.0) + domain["joules"]
    return Reading(parts, begin, end, record["seconds"], record["total"]["joules"])
