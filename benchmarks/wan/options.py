# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of benchmarks/wan/run."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.peers.__main__ import peer_names
from benchmarks.peers.__main__ import setting as peer_setting
from benchmarks.peers.__main__ import size as image_size
from benchmarks.peers.environments import default_cache
from benchmarks.peers.harness import PEERS
from benchmarks.processes import BenchmarkError
from benchmarks.report import REPOSITORY
from benchmarks.wan import settings
from benchmarks.wan.planning import Amount
from benchmarks.wan.settings import TCP_SETTINGS, Axes, Cell

DESCRIPTION = """EMLIO and every other loader over emulated wide-area links.

Without --quick, --goals or --check it is the default matrix (settings.py says what it leaves
out), of which the options choose a part, as they do of the others. --all: every combination of all
values, or of those that the options give."""

# 0.2 GB: two epochs, so that tar files are not too short for WebDataset; four for the check.
QUICK_AMOUNT = Amount(1000, 2)
CHECK_AMOUNT = Amount(500, 4)
QUICK_FOR_S = 38.0
CHECK_FOR_S = 42.0
CHECK_ROUNDS = 8
RUN_S = 8.0
GOALS_RUN_S = 20.0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="benchmarks/wan/run",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = made.add_mutually_exclusive_group()
    what.add_argument("--quick", action="store_true", help="30 ms and 1 Gbit/s, under a minute")
    what.add_argument("--goals", action="store_true", help="the cells that the goals need")
    what.add_argument("--all", action="store_true", help="nothing is left out: days")
    what.add_argument(
        "--check", action="store_true", help="a short run whose ratios must be in bands.json"
    )
    axes = made.add_argument_group("the matrix")
    axes.add_argument("--peers", type=peer_names, metavar="A,B", help="default: all")
    axes.add_argument("--rtt-ms", type=float, nargs="+", metavar="MS")
    axes.add_argument("--rate-mbit", type=float, nargs="+", metavar="MBIT", help="0: no limit")
    axes.add_argument("--loss", type=float, nargs="+", metavar="PERCENT")
    axes.add_argument("--decode", choices=("no", "yes"), nargs="+")
    axes.add_argument("--image-bytes", type=image_size, nargs="+", metavar="SIZE")
    axes.add_argument("--tcp", choices=tuple(TCP_SETTINGS), nargs="+")
    made.add_argument(
        *("--report",),
        type=Path,
        metavar="FILE",
        help="run nothing: tables and plots of results; with --check: judge them",
    )
    how = made.add_argument_group("how")
    how.add_argument("--rounds", type=int, help="repeats, peers taking turns [5; --quick: 3]")
    how.add_argument("--least-gb", type=float, default=2.0, metavar="GB", help="a run [2]")
    how.add_argument(
        *("--run-s",),
        type=float,
        metavar="S",
        help="a run ends so long after its first batch, if it has not moved so much by then "
        f"[{RUN_S:g}; --goals: {GOALS_RUN_S:g}, and the loaders of others only]",
    )
    how.add_argument(
        "--for-s", type=float, default=math.inf, metavar="S", help="begin no run after so long"
    )
    how.add_argument(
        *("--set",),
        type=peer_setting,
        action="append",
        default=[],
        metavar="PEER.NAME=VALUE",
        help="change a setting, such as emlio.streams=8",
    )
    how.add_argument("--queue-bytes", type=int, help="of the link [what it sends in a round trip]")
    how.add_argument("--congestion", help="[the system's]")
    how.add_argument(
        "--self-check", action="store_true", help="measure each link first; void: exit code 3"
    )
    files = made.add_argument_group("files")
    files.add_argument("--json", type=Path, metavar="FILE", help="results; written anew")
    files.add_argument(
        "--resume", type=Path, metavar="FILE", help="results; runs that are in it are not repeated"
    )
    files.add_argument(
        "--redo", type=peer_names, default=[], metavar="A,B", help="run these again all the same"
    )
    files.add_argument("--plan", action="store_true", help="run nothing: how long it would take")
    files.add_argument("--list", action="store_true", help="run nothing: what would be run")
    files.add_argument(
        "--into", type=Path, metavar="DOCUMENT", help="with --report: put tables between its marks"
    )
    files.add_argument(
        "--plots", type=Path, metavar="DIR", help="with --report [the folder wan beside --into]"
    )
    files.add_argument(
        "--cache", type=Path, default=default_cache(), help="environments and images of peers"
    )
    files.add_argument("--emlio", type=Path, default=REPOSITORY / ".venv/bin/emlio")
    return made


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; those of --quick and --check are filled in."""
    made = parser()
    options = made.parse_args(arguments)
    if options.json and options.resume:
        made.error("--resume FILE is where results go: leave out --json")
    if options.into and not options.report:
        made.error("--into goes with --report")
    options.amount = QUICK_AMOUNT if options.quick else CHECK_AMOUNT if options.check else None
    if options.quick:
        options.for_s = min(options.for_s, QUICK_FOR_S)
    if options.check:
        options.for_s = min(options.for_s, CHECK_FOR_S)
    options.bounds_all = not options.goals or options.run_s is not None
    if options.run_s is None and options.amount is None:
        options.run_s = GOALS_RUN_S if options.goals else RUN_S
    if options.rounds is None:
        options.rounds = 3 if options.quick else CHECK_ROUNDS if options.check else 5
    return options


def chosen_cells(options: argparse.Namespace) -> list[Cell]:
    """The cells that the options choose, with the settings that they change."""
    changed = []
    for cell in _selected_cells(options):
        values = {name: value for peer, name, value in options.set if peer == cell.peer}
        settings_now = tuple({**dict(cell.settings), **values}.items())
        changed.append(replace(cell, settings=settings_now))
    return list(dict.fromkeys(changed))


def _selected_cells(options: argparse.Namespace) -> list[Cell]:
    if options.all:
        return settings.matrix(_axes(options))
    named = {
        "quick": settings.quick,
        "goals": settings.goals,
        "check": settings.check,
    }
    make = next((m for name, m in named.items() if vars(options)[name]), settings.default_matrix)
    cells = [cell for cell in make() if _is_chosen(cell, options)]
    if not cells:
        raise BenchmarkError("no such cells here; --all has every combination")
    return cells


def _axes(options: argparse.Namespace) -> Axes:
    whole = Axes(options.peers or tuple(PEERS))
    return Axes(
        whole.peers,
        options.rtt_ms or whole.rtts_ms,
        options.rate_mbit or whole.rates_mbit,
        options.loss or whole.losses_percent,
        [word == "yes" for word in options.decode] if options.decode else whole.decodes,
        options.image_bytes or whole.image_bytes,
        options.tcp or whole.tcps,
    )


def _is_chosen(cell: Cell, options: argparse.Namespace) -> bool:
    line, load = cell.line, cell.workload
    wanted: list[tuple[Sequence[object] | None, object]] = [
        (options.peers, cell.peer),
        (options.rtt_ms, line.rtt_ms),
        (options.rate_mbit, line.rate_mbit),
        (options.loss, line.loss_percent),
        (options.decode, "yes" if load.decode else "no"),
        (options.image_bytes, load.image_bytes),
        (options.tcp, line.tcp),
    ]
    return all(values is None or value in values for values, value in wanted)
