# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Results of a benchmark: medians with their spread, the machine, JSON and a table."""

import datetime
import json
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.processes import BenchmarkError

REPOSITORY = Path(__file__).resolve().parents[1]


def say(text: str) -> None:
    """Tells people what goes on; standard output is for results."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Result:
    """One figure: the median of n samples, their spread, and what it was made with.

    `ci95` is the 95 % confidence interval of the mean, by Student's distribution; None for one
    sample.
    """

    metric: str
    value: float
    unit: str
    n: int
    sd: float
    settings: Mapping[str, Any]
    mean: float | None = None
    ci95: tuple[float, float] | None = None


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


# Student's t for 97.5 %, by degrees of freedom from 1 on; beyond these the normal distribution's.
_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL_975 = 1.96


def confidence_95(samples: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % confidence interval of the mean; None for fewer than two samples."""
    n = len(samples)
    if n < 2:
        return None
    t = _T_975[n - 2] if n - 2 < len(_T_975) else _NORMAL_975
    mean = statistics.mean(samples)
    half = t * statistics.stdev(samples) / math.sqrt(n)
    return mean - half, mean + half


def summarize(metric: str, samples: Sequence[float], unit: str, **settings: Any) -> Result:
    """Median, mean and spread of at least one sample."""
    return Result(
        metric,
        statistics.median(samples),
        unit,
        len(samples),
        statistics.stdev(samples) if len(samples) > 1 else 0.0,
        settings,
        statistics.mean(samples),
        confidence_95(samples),
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


def finish(
    path: Path | None, machine: Mapping[str, Any], results: Iterable[Result], table: str
) -> None:
    """The end of a benchmark: the file, if one is asked for, and the table."""
    if path is not None:
        write_json(path, machine, results)
    print(table, flush=True)


def exit_code(run: Callable[[], None]) -> int:
    """Runs a benchmark. What it cannot do it tells, and is exit code 1."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)  # on the way out every `with` ends its processes

    signal.signal(signal.SIGTERM, stop)
    try:
        run()
    except (BenchmarkError, OSError, subprocess.SubprocessError) as error:
        say(f"error: {error}")
        return 1
    return 0
