# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The store of energy runs: what it costs beside a sampler, and how long a report takes.

Run it by benchmarks/energy_store/run. benchmarks/README.md says what is measured, and how.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.processes import BenchmarkError, command_line, require, run_json
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

PREFIX = "emlio-energy-store-"
LAYOUTS = ("row_a_sample", "row_a_tick", "packed")
HOUR_TICKS = 36_000  # at 100 ms
MANY_DOMAINS = 20  # 12 of CPUs and memory, 8 GPUs

GOALS = {
    "report_36m_ticks_s": Goal(at_most=60),
    "report_memory_growth": Goal(at_most=1.1),
    "monitor_store_cpu_percent": Goal(at_most=0.5),
}


def measure(args: argparse.Namespace, root: Path) -> list[Result]:
    def step(name: str, store: Path, *options: object) -> dict[str, Any]:
        say(f"{name} {' '.join(str(option) for option in options)}")
        return run_json(command_line(args.program, name, store, *options), timeout_s=600)

    results = []
    for layout in LAYOUTS if args.layouts else ():
        store = root / f"{layout}.db"
        options = ("--layout", layout, "--ticks", args.layout_ticks, "--domains", MANY_DOMAINS)
        found = step("layout", store, *options)
        store.unlink()
        for metric, unit in (
            ("write_cpu_us_per_tick", "us"),
            ("read_ns_per_sample", "ns"),
            ("bytes_per_sample", "B"),
        ):
            results.append(
                summarize(
                    *(f"{layout}_{metric}", [found[metric]], unit),
                    ticks=args.layout_ticks,
                    domains=MANY_DOMAINS,
                )
            )

    live = step(
        *("live", root / "live.db", "--domains", MANY_DOMAINS, "--seconds", args.live_seconds)
    )
    if live["ticks_dropped"] != 0:
        raise BenchmarkError(f"{live['ticks_dropped']} ticks were dropped")
    settings = {"domains": MANY_DOMAINS, "seconds": args.live_seconds}
    cpu = live["store_cpu_percent"] + live["append_cpu_percent"]
    results += [
        summarize("monitor_store_cpu_percent", [cpu], "%", **settings),
        summarize("append_p99_us", [live["append_p99_us"]], "us", **settings),
    ]

    memory = []
    for nodes in (max(args.nodes // 20, 1), args.nodes):
        store = root / "hour.db"
        filled = step(
            *("fill", store, "--nodes", nodes, "--ticks", HOUR_TICKS, "--domains", args.domains)
        )
        settings = {"nodes": nodes, "ticks": nodes * HOUR_TICKS, "domains": args.domains}
        reports = [step("report", store) for _ in range(args.repeats)]
        store.unlink()
        for report in reports:
            if report["ticks"] != nodes * HOUR_TICKS or report["joules"] <= 0:
                raise BenchmarkError(f"the report has {report['ticks']} ticks")
        memory.append([float(report["max_rss_bytes"]) for report in reports])
    million = f"{nodes * HOUR_TICKS // 1_000_000}m"
    seconds = [float(report["seconds"]) for report in reports]
    growth = [large / small for small, large in zip(*memory, strict=True)]
    results += [
        summarize(f"report_{million}_ticks_s", seconds, "s", **settings),
        summarize("report_memory_mb", [size / 1e6 for size in memory[1]], "MB", **settings),
        summarize("report_memory_growth", growth, "1", **settings),
        summarize("store_gb", [filled["file_bytes"] / 1e9], "GB", **settings),
    ]
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks/energy_store/run",
        description="What the store of energy runs costs: writing beside a sampler, reports.",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--quick", action="store_true", help="40 nodes, short steps")
    parser.add_argument("--repeats", type=int, default=3, help="reports of each store")
    parser.add_argument("--nodes", type=int, default=1000, help="of the large store")
    parser.add_argument("--domains", type=int, default=4, help="of each of its nodes")
    parser.add_argument("--live-seconds", type=int, default=30, help="beside a sampler")
    parser.add_argument("--layout-ticks", type=int, default=60_000)
    parser.add_argument(
        "--no-layouts", dest="layouts", action="store_false", help="leave out other layouts"
    )
    parser.add_argument(
        "--program",
        type=Path,
        default=REPOSITORY / "build/release/benchmarks/energy_store/energy_store_bench",
    )
    parser.add_argument(
        "--data-dir", type=Path, help="for up to 2 GB of stores; default: the temporary folder"
    )
    args = parser.parse_args()
    if args.quick:
        args.nodes, args.live_seconds, args.layout_ticks, args.repeats = 40, 5, 3_000, 1

    def run() -> None:
        require(args.program)
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=args.data_dir) as root:
            results = measure(args, Path(root))
        finish(args.json, environment({}), results, markdown(results, GOALS))

    return exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
