# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What measuring energy costs: the monitor's share of a core, and how long a window takes.

Run it by benchmarks/energy_monitor/run. benchmarks/README.md says what is measured, and how.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks.processes import command_line, require, run_json
from benchmarks.report import (
    REPOSITORY,
    Goal,
    Result,
    environment,
    exit_code,
    finish,
    markdown,
    say,
    summarize,
)

GOALS = {
    "monitor_cpu_percent_of_one_core": Goal(at_most=0.5),
    "window_p99_us": Goal(at_most=20),
}


def measure(program: Path, repeats: int, quick: bool) -> list[Result]:
    """Runs the program so many times: a host of 12 CPU domains and 8 GPUs, 100 ms."""
    runs: list[dict[str, Any]] = []
    for number in range(repeats):
        say(f"run {number + 1} of {repeats}")
        runs.append(run_json(command_line(program, *(["--quick"] if quick else [])), timeout_s=120))
    settings = {
        "domains": runs[0]["domains"],
        "gpus": runs[0]["gpus"],
        "interval_ms": runs[0]["interval_ms"],
        "seconds": round(runs[0]["seconds"]),
    }
    figures = {
        "monitor_cpu_percent_of_one_core": ([r["cpu_percent_of_one_core"] for r in runs], "%"),
        "tick_late_p99_ms": ([r["late_p99_ms"] for r in runs], "ms"),
        "window_p50_us": ([r["windows_one_thread"]["p50_us"] for r in runs], "us"),
        "window_p99_us": ([r["windows_one_thread"]["p99_us"] for r in runs], "us"),
        "window_p99_us_four_threads": ([r["windows_four_threads"]["p99_us"] for r in runs], "us"),
    }
    return [summarize(name, samples, unit, **settings) for name, (samples, unit) in figures.items()]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks/energy_monitor/run",
        description="What the energy monitor and its windows cost, on stand-ins of counters.",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--quick", action="store_true", help="3 runs of 6 s")
    parser.add_argument("--repeats", type=int, default=5, help="runs")
    folder = REPOSITORY / "build/release/benchmarks/energy_monitor"
    parser.add_argument("--program", type=Path, default=folder / "energy_monitor_benchmark")
    args = parser.parse_args()
    repeats = 3 if args.quick else args.repeats

    def run() -> None:
        require(args.program)
        results = measure(args.program, repeats, args.quick)
        finish(args.json, environment({}), results, markdown(results, GOALS))

    return exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
