# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The store of energy runs: what it costs beside a sampler, and how long reports take.

Run it by benchmarks/energy_store/run. benchmarks/README.md says what is measured, and how.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
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

FORMS = ("text", "json", "html")  # of emlio energy report

GOALS = {
    "report_36m_ticks_s": Goal(at_most=60),
    "report_memory_growth": Goal(at_most=1.1),
    **{f"report_{form}_36m_ticks_s": Goal(at_most=60) for form in FORMS},
    **{f"report_{form}_memory_growth": Goal(at_most=1.1) for form in FORMS},
    "monitor_store_cpu_percent": Goal(at_most=0.5),
}


def report_as(emlio: Path, form: str, store: Path) -> dict[str, float]:
    """`emlio energy report` of the store's run, whose epochs and nodes have to be in it."""
    output = store.with_name(f"report.{form}")
    options = {"text": (), "json": ("--json", output), "html": ("--html", output)}[form]
    command = command_line(emlio, "energy", "report", "--store", store, *options)
    with output.with_name("text").open("wb") as text:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=text)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchmarkError(f"emlio energy report ended with {process.returncode}")
    result = output if output.exists() else output.with_name("text")
    content = result.read_text()
    if "node-0" not in content or "epoch" not in content:
        raise BenchmarkError(f"the report as {form} lacks what is in the store")
    size = float(result.stat().st_size)
    result.unlink()
    return {"seconds": seconds, "max_rss_bytes": used.ru_maxrss * 1024.0, "bytes": size}


def column(name: str, rows: list[dict[str, float]]) -> list[float]:
    return [row[name] for row in rows]


def growth(small: list[float], large: list[float]) -> list[float]:
    return [after / before for before, after in zip(small, large, strict=True)]


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

    # Few nodes, and few ticks of all nodes: what memory grows with.
    stores = [
        (max(args.nodes // 20, 1), HOUR_TICKS),
        (args.nodes, HOUR_TICKS // 20),
        (args.nodes, HOUR_TICKS),
    ]
    memory: list[list[float]] = []
    reported: list[dict[str, list[dict[str, float]]]] = []
    for nodes, ticks in stores:
        store = root / "hour.db"
        filled = step(
            *("fill", store, "--nodes", nodes, "--ticks", ticks, "--domains", args.domains)
        )
        reports = [step("report", store) for _ in range(args.repeats)]
        for report in reports:
            if report["ticks"] != nodes * ticks or report["joules"] <= 0:
                raise BenchmarkError(f"the report has {report['ticks']} ticks")
        memory.append([float(report["max_rss_bytes"]) for report in reports])
        say(f"emlio energy report, {args.repeats} times each as {', '.join(FORMS)}")
        reported.append(
            {
                form: [report_as(args.emlio, form, store) for _ in range(args.repeats)]
                for form in FORMS
            }
        )
        store.unlink()
    settings = {"nodes": nodes, "ticks": nodes * ticks, "domains": args.domains}
    million = f"{nodes * ticks // 1_000_000}m"
    seconds = [float(report["seconds"]) for report in reports]
    results += [
        summarize(f"report_{million}_ticks_s", seconds, "s", **settings),
        summarize("report_memory_mb", [size / 1e6 for size in memory[-1]], "MB", **settings),
        summarize("report_memory_growth", growth(memory[0], memory[-1]), "1", **settings),
        summarize("store_gb", [filled["file_bytes"] / 1e9], "GB", **settings),
    ]
    _, few_ticks, all_ticks = reported
    for form in FORMS:
        many = all_ticks[form]
        memory_bytes = column("max_rss_bytes", many)
        results += [
            summarize(f"report_{form}_{million}_ticks_s", column("seconds", many), "s", **settings),
            summarize(
                f"report_{form}_memory_mb", [size / 1e6 for size in memory_bytes], "MB", **settings
            ),
            summarize(
                f"report_{form}_memory_growth",
                growth(column("max_rss_bytes", few_ticks[form]), memory_bytes),
                "1",
                **settings,
            ),
            summarize(
                f"report_{form}_kb",
                [size / 1e3 for size in column("bytes", many)],
                "kB",
                **settings,
            ),
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
    parser.add_argument("--emlio", type=Path, default=REPOSITORY / ".venv/bin/emlio")
    parser.add_argument(
        "--data-dir", type=Path, help="for up to 2 GB of stores; default: the temporary folder"
    )
    args = parser.parse_args()
    if args.quick:
        args.nodes, args.live_seconds, args.layout_ticks, args.repeats = 40, 5, 3_000, 1

    def run() -> None:
        require(args.program)
        require(args.emlio)
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=args.data_dir) as root:
            results = measure(args, Path(root))
        finish(args.json, environment({}), results, markdown(results, GOALS))

    return exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
