# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What energy monitors report of hosts whose true energy is known.

Run it by benchmarks/energy_truth/run. README.md has the scenarios and the rules.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.energy_truth.judge import Verdict, judge
from benchmarks.energy_truth.running import namespaces, read, stand_in_for_nvml
from benchmarks.energy_truth.scenarios import POWER_PMU, SCENARIOS, Scenario
from benchmarks.energy_truth.tool import REQUIREMENTS, Installed, Tool
from benchmarks.energy_truth.with_carbontracker import CarbonTracker
from benchmarks.energy_truth.with_codecarbon import CodeCarbon
from benchmarks.energy_truth.with_emlio import Emlio
from benchmarks.energy_truth.with_perf import Perf
from benchmarks.energy_truth.with_perun import Perun
from benchmarks.energy_truth.with_pyjoules import PyJoules
from benchmarks.energy_truth.with_zeus import Zeus
from benchmarks.peers.environments import Environments, default_cache
from benchmarks.processes import BenchmarkError
from benchmarks.report import (
    REPOSITORY,
    Goal,
    Result,
    environment,
    number,
    say,
    summarize,
    write_json,
)

TOOLS: dict[str, type[Tool]] = {
    tool.name: tool for tool in (Emlio, Zeus, CodeCarbon, Perun, PyJoules, CarbonTracker)
}
# Readers of the power PMU, which is one scenario more.
PMU_READERS: dict[str, type[Tool]] = {tool.name: tool for tool in (Emlio, Perf)}
PASSED = "scenarios_passed"
GOALS = {PASSED: Goal(at_least=len(SCENARIOS))}
# More of what a tool said than anybody reads.
SAID = 3000


@dataclass(frozen=True)
class Run:
    """One run of a tool on a scenario; plain data, as it stands in the JSON file."""

    tool: str
    version: str
    scenario: str
    kind: str
    joules: float | None
    truth: float | None
    error: float | None
    parts: dict[str, float]
    headline: float | None
    window_s: float
    said: str


def one_of(known: Sequence[str]) -> Any:
    """For argparse: some of these names, with commas between them."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {name!r}; there are {', '.join(known)}")
        return names

    return parse


def run_once(tool: Tool, scenario: Scenario) -> Run | str:
    """A run, or why it could not be made."""
    try:
        reading = read(tool, scenario)
    except BenchmarkError as error:
        say(f"{tool.name} on {error}")
        return f"{tool.name} on {error}"
    verdict = judge(scenario, type(tool), reading)
    begin, end = reading.window()
    run = Run(
        *(tool.name, tool.version(), scenario.name),
        **vars(verdict),
        parts={str(part): joules for part, joules in reading.parts.items()},
        headline=reading.headline,
        window_s=end - begin,
        said=reading.said[-SAID:],
    )
    say(f"{tool.name} on {scenario.name}: {cell([run])}")
    return run


def passed(run: Run) -> bool:
    return Verdict(run.kind, run.joules, run.truth, run.error).passed  # type: ignore[arg-type]


def cell(runs: Sequence[Run]) -> str:
    """What some runs of a tool on a scenario came to, for people."""
    kinds = sorted({run.kind for run in runs})
    texts = []
    for kind in kinds:
        of_kind = [run for run in runs if run.kind == kind]
        errors = [run.error for run in of_kind if run.error is not None]
        joules = [run.joules for run in of_kind if run.joules is not None]
        if errors:
            low, high = (f"{100 * error:+.2f}" for error in (min(errors), max(errors)))
            if max(map(abs, errors)) >= 0.1:
                low, high = (f"{100 * error:+,.0f}" for error in (min(errors), max(errors)))
            text = f"{low} %" if low == high else f"{low} … {high} %"
        elif kind == "invented":
            text = f"{number(statistics.median(joules))} J invented"
        else:
            text = {"n/a": "n/a, with the cause", "silent": "nothing, no cause"}.get(kind, "error")
        if len(kinds) > 1:
            text += f" ({len(of_kind)} of {len(runs)})"
        texts.append(text if kind in ("right", "n/a") else f"**{text}**")
    return ", ".join(texts)


def of(runs: Sequence[Run], tool: str, scenario: Scenario) -> list[Run]:
    return [run for run in runs if run.tool == tool and run.scenario == scenario.name]


def passes(runs: Sequence[Run], tool: str) -> int | None:
    """How many scenarios all runs of a tool passed; None unless it ran on all of them."""
    each = [of(runs, tool, scenario) for scenario in SCENARIOS]
    return sum(all(map(passed, some)) for some in each) if all(each) else None


def table(runs: Sequence[Run]) -> str:
    """Scenarios by tools, in Markdown."""
    tools = [name for name in TOOLS if any(run.tool == name for run in runs)]
    lines = ["| scenario | " + " | ".join(TOOLS[name].title for name in tools) + " |"]
    lines.append("|---" + "|---" * len(tools) + "|")
    for scenario in SCENARIOS:
        cells = [cell(of(runs, name, scenario)) for name in tools]
        if any(cells):
            lines.append(f"| `{scenario.name}`: {scenario.title} | " + " | ".join(cells) + " |")
    counts = [passes(runs, name) for name in tools]
    lines.append(
        "| passed | "
        + " | ".join("" if count is None else f"{count} of {len(SCENARIOS)}" for count in counts)
        + " |"
    )
    pmu = [run for run in runs if run.scenario == POWER_PMU.name]
    if pmu:
        lines += ["", f"`{POWER_PMU.name}`, {POWER_PMU.title}: "]
        lines[-1] += ", ".join(
            f"{tool.title} {cell(found)}"
            for name, tool in PMU_READERS.items()
            if (found := of(pmu, name, POWER_PMU))
        )
    return "\n".join(lines)


def results(runs: Sequence[Run]) -> list[Result]:
    """The figures of the runs."""
    found = []
    for name, tool in {**TOOLS, **PMU_READERS}.items():
        prefix = "" if name == "emlio" else f"{name}_"
        settings = {"tool": tool.title, "how": tool.settings}
        count = passes(runs, name)
        if count is not None:
            found.append(summarize(f"{prefix}{PASSED}", [count], "of 11", **settings))
        for scenario in (*SCENARIOS, POWER_PMU):
            errors = [100 * run.error for run in of(runs, name, scenario) if run.error is not None]
            if errors:
                metric = f"{name}_error_{scenario.name.replace('-', '_')}"
                found.append(summarize(metric, errors, "%", **settings))
    return found


def install(names: Sequence[str], installed: Installed) -> int:
    failures = 0
    for name in names:
        if name not in TOOLS or not TOOLS[name].package:
            continue
        say(f"{name}: installing")
        try:
            installed.environments.install(name)
        except BenchmarkError as error:
            say(f"{name}: {error}")
            failures += 1
    return 1 if failures else 0


def measure(args: argparse.Namespace, installed: Installed) -> tuple[list[Run], list[str]]:
    """All runs that were asked for, and why some could not be made.

    Raises:
        BenchmarkError: a tool that was asked for is missing, or there are no hosts here.
    """
    work: list[tuple[Tool, Scenario]] = []
    for known, scenarios in ((TOOLS, SCENARIOS), (PMU_READERS, (POWER_PMU,))):
        chosen = [scenario for scenario in scenarios if scenario.name in args.scenarios]
        if POWER_PMU in chosen and "--user" in namespaces():
            say(f"{POWER_PMU.name} is NOT RUN: counting the events of a CPU takes root here")
            continue
        for name, tool in known.items():
            if name not in args.tools or not chosen:
                continue
            if lacking := tool(installed).missing():
                raise BenchmarkError(f"{name} is missing: {lacking}")
            work += [(tool(installed), scenario) for scenario in chosen]
    work.sort(key=lambda one: one[1].window_s, reverse=True)  # so that no long one is the last
    namespaces()
    stand_in_for_nvml()
    with ThreadPoolExecutor(args.jobs) as pool:
        done = list(pool.map(lambda one: run_once(*one), work * args.rounds))
    runs = [one for one in done if isinstance(one, Run)]
    return runs, [one for one in done if isinstance(one, str)]


def main() -> int:
    tools = [*TOOLS, *(name for name in PMU_READERS if name not in TOOLS)]
    names = [*(scenario.name for scenario in SCENARIOS), POWER_PMU.name]
    parser = argparse.ArgumentParser(prog="benchmarks/energy_truth/run", description=__doc__)
    parser.add_argument(
        *("--install",),
        action="store_true",
        help="install the tools, each into an environment of its own below --cache",
    )
    parser.add_argument(
        "--quick", action="store_true", help="EMLIO alone, once, within 50 s; or --tools, once"
    )
    parser.add_argument("--tools", type=one_of(tools), metavar="A,B", help=f"of {', '.join(tools)}")
    parser.add_argument(
        "--scenarios", type=one_of(names), default=names, metavar="A,B", help="of the scenarios"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="of each [3, with --quick 1]")
    parser.add_argument(
        *("--jobs",), type=int, default=4, metavar="N", help="runs beside each other [%(default)s]"
    )
    parser.add_argument(
        *("--join",), type=Path, nargs="+", default=[], metavar="FILE", help="with these runs"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument(
        *("--cache",),
        type=Path,
        default=default_cache(),
        help="folder of environments [$EMLIO_PEERS_CACHE, else %(default)s]",
    )
    parser.add_argument(
        *("--emlio",),
        type=Path,
        default=REPOSITORY / ".venv/bin/emlio",
        help="the executable [%(default)s]",
    )
    args = parser.parse_args()
    installed = Installed(Environments(args.cache, REQUIREMENTS), args.emlio.absolute())
    args.rounds = args.rounds or (1 if args.quick else 3)
    args.tools = args.tools or (["emlio"] if args.quick else tools)
    if args.install:
        return install(args.tools, installed)
    try:
        failures: list[str] = []
        runs = [Run(**run) for file in args.join for run in json.loads(file.read_text())["runs"]]
        if not args.join:
            runs, failures = measure(args, installed)
    except BenchmarkError as error:
        say(f"error: {error}")
        return 1
    found = results(runs)
    print(table(runs))
    if args.json is not None:
        versions = {run.tool: run.version for run in runs}
        details = {"runs": [vars(run) for run in runs], "failures": failures}
        write_json(args.json, environment(versions), found, **details)
    missed = [
        one for one in found if one.metric in GOALS and not GOALS[one.metric].is_met_by(one.value)
    ]
    return 1 if failures or missed else 0


if __name__ == "__main__":
    sys.exit(main())
