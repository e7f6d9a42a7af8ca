# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO and every other loader over emulated wide-area links.

Run it by benchmarks/wan/run. benchmarks/README.md says what is measured, and how.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers.environments import Environments
from benchmarks.peers.harness import PEERS
from benchmarks.peers.peer import Tools
from benchmarks.processes import BenchmarkError
from benchmarks.report import environment, say
from benchmarks.wan import bad_cases, metrics, tables
from benchmarks.wan.bands import is_settled, judge, load_bands, verdict_table
from benchmarks.wan.options import chosen_cells, parse
from benchmarks.wan.planning import Plan, plan_table
from benchmarks.wan.running import Runner, missing_peers
from benchmarks.wan.settings import Cell
from benchmarks.wan.store import Store
from benchmarks.wanlab import LabError, NotPermittedError

EXIT_FAILED = 1
EXIT_VOID = 3
EXIT_UNFINISHED = 75  # EX_TEMPFAIL: the rest is to come
EXIT_NOT_PERMITTED = 77


def open_store(options: argparse.Namespace) -> Store:
    if options.resume and options.resume.exists():
        store = Store.load(options.resume)
        store.forget(options.redo)
        return store
    return Store(options.resume or options.json)


def prepare(
    options: argparse.Namespace, arguments: Sequence[str], store: Store
) -> tuple[Plan, Runner]:
    """What is chosen and can be run here, and its runner; the store says what cannot."""
    command = " ".join(["benchmarks/wan/run", *arguments])
    if command not in store.commands:
        store.commands.append(command)
    cells = chosen_cells(options)
    tools = Tools(Environments(options.cache), options.emlio.absolute())
    store.missing = missing_peers(cells, tools)
    for peer, reason in store.missing.items():
        say(f"{peer} is left out: {reason}")
    here: list[Cell] = [cell for cell in cells if cell.peer not in store.missing]
    versions = {
        f"{peer} {package}": version
        for peer in dict.fromkeys(cell.peer for cell in here)
        for package, version in PEERS[peer].versions(tools).items()
    }
    known = store.environment.get("versions", {})
    store.environment = environment({**known, **versions})
    plan = Plan(
        here,
        options.rounds,
        options.least_gb,
        options.amount,
        options.queue_bytes,
        options.congestion,
        options.self_check,
        options.for_s,
        options.run_s,
        options.bounds_all,
        options.goals,
        say,
    )
    commit = store.environment["commit"]
    return plan, Runner(plan, store, tools, options.cache / "images", commit)


def measure(options: argparse.Namespace, runner: Runner, store: Store) -> int:
    """Runs what is left; prints tables."""
    finished = True
    try:
        finished = runner.run()
    finally:
        store.write(metrics.results(store.rows()))
    report(options, store)
    if not finished and not options.quick:
        say(f"{len(runner.unfinished())} runs are left: go on with --resume {store.path}")
        return EXIT_UNFINISHED
    return EXIT_FAILED if store.failures() else 0


def check(options: argparse.Namespace, runner: Runner, store: Store) -> int:
    """The regression check: runs until every band is judged or time is over."""
    bands = load_bands()

    def is_enough(number: int) -> bool:
        return bool(store.failures()) or is_settled(judge(store, bands))

    runner.run(is_enough)
    store.write(metrics.results(store.rows()))
    if failures := tables.failure_lines(store):
        print("\n".join(["runs failed:", *failures]))
        return EXIT_FAILED
    return print_verdicts(store)


def print_verdicts(store: Store) -> int:
    verdicts = judge(store, load_bands())
    print(verdict_table(verdicts))
    outside = [verdict.metric for verdict in verdicts if verdict.state == "OUTSIDE"]
    if outside:
        print(f"outside of their bands: {', '.join(outside)}")
        return EXIT_FAILED
    return 0


def report(options: argparse.Namespace, store: Store) -> None:
    """Tables of what is there, to the terminal."""
    rows = metrics.Table(store.rows())
    if options.goals:
        print("\n".join(tables.goals_table(metrics.comparisons(rows))))
    else:
        comparisons = list(metrics.comparisons(rows))
        print("\n".join(tables.comparison_table(comparisons)))
    if epochs := tables.epoch_table(rows):
        print("\n".join(["", *epochs]))
    for line, load in rows.places():
        if not rows.peers(line, load):
            continue  # long epochs only
        print(f"\n{tables.place_title(line, load)}")
        print("\n".join(tables.place_table(rows, line, load)))
    print("\n".join(["", *tables.failure_lines(store)]).rstrip())


def judge_stored(options: argparse.Namespace) -> int:
    """--check --report: what the bands say of an earlier run."""
    return print_verdicts(Store.load(options.report))


def regenerate(options: argparse.Namespace) -> int:
    """--report: everything of a file of results, into a document or to the terminal."""
    store = Store.load(options.report)
    if not store.rows():
        raise BenchmarkError(f"{options.report} has no rows")
    results = metrics.results(store.rows())
    folder: Path | None = options.plots or (options.into and options.into.parent / "wan")
    links: list[str] = []
    if folder is not None:
        from benchmarks.wan.plots import draw

        base = options.into.parent if options.into else Path.cwd()
        plots = draw(metrics.Table(store.rows()), folder)
        links = [os.path.relpath(path, base) for path in plots]
    text = tables.document(store, results, links)
    if options.into:
        tables.write_into(options.into, text)
    else:
        print(text)
    return 0


def list_cells(runner: Runner) -> int:
    left = runner.unfinished()
    for cell in dict.fromkeys(cell for _, cell in left):
        print(f"{sum(other == cell for _, other in left)} x {cell}")
    print(f"{len(left)} runs are left")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Does what the command line says; returns the exit code."""
    if "--bad-cases" in arguments:
        return bad_cases.main([word for word in arguments if word != "--bad-cases"])
    options = parse(arguments)
    act: Callable[[argparse.Namespace, Runner, Store], int] = check if options.check else measure
    try:
        if options.report:
            return judge_stored(options) if options.check else regenerate(options)
        store = open_store(options)
        plan, runner = prepare(options, arguments, store)
        if options.plan:
            print("\n".join(plan_table(plan, store)))
            return 0
        if options.list:
            return list_cells(runner)
        return act(options, runner, store)
    except NotPermittedError as error:
        say(f"benchmarks/wan: no emulated links here: {error}")
        return EXIT_NOT_PERMITTED
    except (BenchmarkError, LabError) as error:
        say(f"benchmarks/wan: {error}")
        return EXIT_VOID if str(error).startswith("void") else EXIT_FAILED


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
