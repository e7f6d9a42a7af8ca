# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Results of a benchmark: medians with their spread, the machine, JSON and a table."""

import datetime
import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Result:
    """One figure: the median of n samples, their standard deviation, and what it was made with."""

    metric: str
    value: float
    unit: str
    n: int
    sd: float
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Goal:
    """What a metric should be."""

    at_least: float | None = None
    at_most: float | None = None

    def is_met_by(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )

    def __str__(self) -> str:
        texts = []
        if self.at_least is not None:
            texts.append(f"≥ {self.at_least:,}")
        if self.at_most is not None:
            texts.append(f"≤ {self.at_most:,}")
        return ", ".join(texts)


def summarize(metric: str, samples: Sequence[float], unit: str, **settings: Any) -> Result:
    """The median and sample standard deviation of at least one sample."""
    return Result(
        metric,
        statistics.median(samples),
        unit,
        len(samples),
        statistics.stdev(samples) if len(samples) > 1 else 0.0,
        settings,
    )


def first_line(*command: str) -> str:
    """The first line that a program prints, run in the repository."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, cwd=REPOSITORY)
    except OSError:
        return "not found"
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def _cpu_model() -> str:
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1) if found else platform.processor()


def environment(versions: Mapping[str, str]) -> dict[str, Any]:
    """The machine and what ran on it. `versions` are those of the programs that took part."""
    tcp = Path("/proc/sys/net/ipv4")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
        "kernel": platform.release(),
        "load_average_1_min": os.getloadavg()[0],
        "commit": first_line("git", "describe", "--always", "--dirty", "--abbrev=40"),
        "versions": {"python": platform.python_version(), **versions},
        "tcp": {
            name: (tcp / name).read_text().strip()
            for name in ("tcp_congestion_control", "tcp_wmem", "tcp_rmem")
        },
    }


def write_json(
    path: Path, machine: Mapping[str, Any], results: Iterable[Result], **more: Any
) -> None:
    """Writes {"environment", "results"} and whatever else is given; the file appears whole."""
    report = {"environment": machine, "results": [vars(result) for result in results], **more}
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(json.dumps(report, indent=1) + "\n")
    unfinished.replace(path)


def number(value: float) -> str:
    """Three digits at least, thousands apart."""
    if abs(value) >= 999.5:  # what three digits would make 1e+03
        return f"{value:,.0f}"
    return f"{value:.3g}"


def markdown(results: Iterable[Result], goals: Mapping[str, Goal]) -> str:
    """The results as a Markdown table."""
    lines = ["| metric | median | sd | n | unit | goal | met |", "|---|---:|---:|---:|---|---|---|"]
    for result in results:
        goal = goals.get(result.metric)
        met = "" if goal is None else "yes" if goal.is_met_by(result.value) else "**no**"
        lines.append(
            f"| `{result.metric}` | {number(result.value)} | {number(result.sd)} | {result.n} "
            f"| {result.unit} | {goal or ''} | {met} |"
        )
    return "\n".join(lines)
