# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO on links that change while it reads, and with a consumer slower than the link.

Every record of every run is checked: the batches in the order of the plan, each image once an
epoch, every byte. iperf3 goes through the same changes once, with as many streams as EMLIO had, to
show what is TCP's own doing.
Run it by benchmarks/wan/run --bad-cases, or `python -m benchmarks.wan.bad_cases`.
"""

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.peers import servers
from benchmarks.peers.environments import Environments, default_cache
from benchmarks.peers.harness import measured
from benchmarks.peers.images import ImageSet, load_into_memory, make_images
from benchmarks.peers.iperf import IPERF3
from benchmarks.peers.node import Host
from benchmarks.peers.peer import Tools, Work
from benchmarks.processes import Background, BenchmarkError
from benchmarks.report import (
    REPOSITORY,
    Goal,
    Result,
    environment,
    markdown,
    number,
    say,
    summarize,
    write_json,
)
from benchmarks.wan.store import EMLIO_CONTROL_CONNECTIONS
from benchmarks.wan.watched import WatchedLoader
from benchmarks.wan.watching import Watch
from benchmarks.wanlab import Lab, LabError, NodeSettings, Topology, symmetric_link
from benchmarks.wanlab.self_check import goodput_mbit

IMAGES = 600
IMAGE_BYTES = 100_000
RATE_MBIT = 1000.0
MTU = 1500
# More than a round trip of 30 ms: the default follows the RTT that the link begins with.
QUEUE_BYTES = 4_000_000
BIN_S = 0.25  # of the series
WINDOW_S = 1.0  # a rate is steady when it is, over so long, near that of the phase's second half
STEADY_WITHIN = 0.1
SAMPLE_S = 0.05
SLOW_MB_PER_S = 40.0
CREDIT_MB = 64  # the consumer's read-ahead where it is slow
RUN_LIMIT_S = 60.0

Arrivals = Sequence[tuple[float, int]]  # moments, and how many bytes came


@dataclass(frozen=True)
class Phase:
    """A part of a run: fields of Direction for both directions; those not named stay."""

    name: str
    seconds: float
    link: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A link that changes."""

    name: str
    title: str
    phases: tuple[Phase, ...]
    rtt_ms: float = 30.0
    congestion: str | None = None
    reference: bool = False  # iperf3 goes through it as well

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)


RTT_PHASES = (
    Phase("before", 1.5),
    Phase("during", 3.0, {"delay_ms": 50.0}),
    Phase("after", 2.0, {"delay_ms": 0.5}),
)
CASES = (
    Case("rtt", "round-trip time 1 → 100 → 1 ms", RTT_PHASES, rtt_ms=1.0, reference=True),
    Case("rtt_cubic", "the same, cubic", RTT_PHASES, rtt_ms=1.0, congestion="cubic"),
    Case(
        "rate",
        "rate 1 Gbit/s → 500 Mbit/s",
        (Phase("before", 1.5), Phase("after", 3.0, {"rate_mbit": RATE_MBIT / 2})),
    ),
    Case(
        "outage",
        "nothing comes through for 5 s",
        (
            Phase("before", 1.5),
            Phase("during", 5.0, {"cut": True}),
            Phase("after", 6.0, {"cut": False}),
        ),
        reference=True,
    ),
    Case(
        "reordering",
        "1 % of the packets 3 ms late",
        (
            Phase("before", 1.5),
            Phase("during", 3.0, {"reorder_percent": 1.0, "reorder_by_ms": 3.0}),
            Phase("after", 2.0, {"reorder_percent": 0.0}),
        ),
    ),
)
SLOW = "slow_consumer"
UNCHANGED = Case(SLOW, "a consumer slower than the link", ())

GOALS = {
    "bad_rtt_after_over_link": Goal(at_least=0.9),
    "bad_rtt_cubic_after_over_link": Goal(at_least=0.9),
    "bad_rate_after_over_link": Goal(at_least=0.9),
    "bad_outage_after_longest_wait_s": Goal(at_most=2.0),
    "bad_outage_after_over_link": Goal(at_least=0.9),
    "bad_reordering_during_over_link": Goal(at_least=0.9),
    "bad_reordering_after_over_link": Goal(at_least=0.9),
    "bad_slow_consumer_cpu_over_link_bound": Goal(at_most=1.25),
    "bad_slow_consumer_ahead_over_credit": Goal(at_most=1.25),
}


class Timeline:
    """Changes a link as the phases of a case say, from `start` on, in a thread of its own."""

    def __init__(self, lab: Lab, phases: Sequence[Phase]) -> None:
        self._lab = lab
        self._phases = phases
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="timeline")
        self._failure: Exception | None = None
        self.starts_s: list[float] = []  # of phases, by the monotonic clock

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        due_s = time.monotonic()
        try:
            for phase in self._phases:
                if self._stop.wait(max(0.0, due_s - time.monotonic())):
                    return
                if phase.link:
                    self._lab.set_link(**phase.link)
                self.starts_s.append(time.monotonic())
                due_s += phase.seconds
        except (LabError, OSError) as error:
            self._failure = error

    def end(self) -> None:
        """Stops; an error if the link could not be changed."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._failure is not None:
            raise BenchmarkError(f"the link could not be changed: {self._failure}")


def bytes_between(arrivals: Arrivals, begin_s: float, end_s: float) -> int:
    return sum(size for moment, size in arrivals if begin_s <= moment < end_s)


def series(arrivals: Arrivals, begin_s: float) -> list[float]:
    """MB/s in each BIN_S from the beginning on; the last, incomplete bin is left out."""
    bins = [0] * int((arrivals[-1][0] - begin_s) / BIN_S)
    for moment, size in arrivals:
        index = int((moment - begin_s) / BIN_S)
        if index < len(bins):
            bins[index] += size
    return [size / BIN_S / 1e6 for size in bins]


def phase_row(phase: Phase, arrivals: Arrivals, begin_s: float, end_s: float) -> dict[str, Any]:
    """What came in a phase, and how long after its beginning the rate was steady.

    `until_steady_s` is the beginning of the first WINDOW_S whose rate is near that of the phase's
    second half; null where that half brought nothing, or where there was no such window.
    """
    middle_s = (begin_s + end_s) / 2
    steady = bytes_between(arrivals, middle_s, end_s) / (end_s - middle_s) / 1e6
    until_steady_s = None
    at_s = begin_s
    while steady > 0 and at_s + WINDOW_S <= end_s:
        rate = bytes_between(arrivals, at_s, at_s + WINDOW_S) / WINDOW_S / 1e6
        if abs(rate - steady) <= STEADY_WITHIN * steady:
            until_steady_s = at_s - begin_s
            break
        at_s += SAMPLE_S
    moments = [begin_s, *(m for m, _ in arrivals if begin_s <= m < end_s), end_s]
    return {
        "phase": phase.name,
        "link": dict(phase.link),
        "seconds": end_s - begin_s,
        "mb_per_s": bytes_between(arrivals, begin_s, end_s) / (end_s - begin_s) / 1e6,
        "steady_mb_per_s": steady,
        "until_steady_s": until_steady_s,
        "longest_wait_s": max(b - a for a, b in itertools.pairwise(moments)),
    }


def phase_rows(case: Case, arrivals: Arrivals, starts_s: Sequence[float]) -> list[dict[str, Any]]:
    if len(starts_s) != len(case.phases):
        raise BenchmarkError(f"{case.name}: the run ended in phase {len(starts_s)}")
    ends_s = [*starts_s[1:], max(arrivals[-1][0], starts_s[-1] + WINDOW_S)]
    return [
        phase_row(phase, arrivals, begin_s, end_s)
        for phase, begin_s, end_s in zip(case.phases, starts_s, ends_s, strict=True)
    ]


@contextmanager
def laboratory(case: Case, nodes: NodeSettings) -> Iterator[Lab]:
    if case.congestion is not None:
        nodes = replace(nodes, congestion=case.congestion)
    link = symmetric_link(case.rtt_ms, mtu=MTU, rate_mbit=RATE_MBIT, queue_bytes=QUEUE_BYTES)
    # The kernel's netem cannot let single packets come late.
    with Lab(Topology.pair(link).with_nodes(nodes), "emulator") as lab:
        yield lab


def read_watched(
    lab: Lab,
    images: ImageSet,
    tools: Tools,
    phases: Sequence[Phase],
    *,
    seconds: float,
    mb_per_s: float = 0.0,
    **settings: Any,
) -> tuple[dict[str, Any], list[float]]:
    """EMLIO over the laboratory's link while that changes: its row, and when phases began."""
    timeline = Timeline(lab, phases)
    with tempfile.TemporaryDirectory(prefix="emlio-bad-cases-") as scratch:
        loader = WatchedLoader(
            Work(images, 1, Path(scratch), tools, RUN_LIMIT_S),
            settings,
            started=timeline.start,
            seconds=seconds,
            mb_per_s=mb_per_s,
        )
        load_into_memory(loader.prepare())
        storage, compute = (
            Host(lab.address_of(end), end.popen) for end in (lab.storage[0], lab.compute[0])
        )
        with Watch(lab) as watch:
            try:
                row = measured(loader, storage, compute, watch=watch.mark)
            finally:
                timeline.end()
    row |= watch.findings(row["storage"]["cpu_s"] + row["compute"]["cpu_s"])
    row["streams"] = row["connections"] - EMLIO_CONTROL_CONNECTIONS
    return row, timeline.starts_s


def run_case(case: Case, images: ImageSet, tools: Tools, nodes: NodeSettings) -> dict[str, Any]:
    """One run of EMLIO through a case."""
    with laboratory(case, nodes) as lab:
        row, starts_s = read_watched(lab, images, tools, case.phases, seconds=case.seconds)
    arrivals, begin_s = row.pop("arrivals"), row.pop("begin_s")
    return {
        "case": case.name,
        "program": "emlio",
        "phases": phase_rows(case, arrivals, starts_s),
        "series_mb_per_s": series(arrivals, begin_s),
        **row,
    }


def run_reference(case: Case, nodes: NodeSettings, streams: int) -> dict[str, Any]:
    """One run of iperf3 through the same case: what arrives, from the emulator's counters."""
    with laboratory(case, nodes) as lab, tempfile.TemporaryDirectory() as scratch:
        address = lab.address_of(lab.storage[0])
        server = Background(
            [servers.find(IPERF3), "-s", "-B", address, "--forceflush"],
            Path(scratch) / "log",
            popen=lab.storage[0].popen,
        )
        with server:
            server.wait_for_output("Server listening")
            command = [servers.find(IPERF3), "-c", address, "-R", "-P", str(streams)]
            # It takes whole seconds, and is ended when the last phase is.
            command += ["-t", str(round(case.seconds) + 2), "-l", "1M"]
            client = lab.compute[0].popen(command, stdout=subprocess.DEVNULL)
            timeline = Timeline(lab, case.phases)
            timeline.start()
            begin_s = time.monotonic()
            arrivals = [(begin_s, 0)]
            before = 0
            while time.monotonic() < begin_s + case.seconds:
                counted = lab.statistics()["links"][0]["to_compute"]["delivered"]["bytes"]
                arrivals.append((time.monotonic(), counted - before))
                before = counted
                time.sleep(SAMPLE_S)
            timeline.end()
            client.kill()
            client.wait()
    return {
        "case": case.name,
        "program": "iperf3",
        "streams": streams,
        "phases": phase_rows(case, arrivals, timeline.starts_s),
        "series_mb_per_s": series(arrivals, begin_s),
    }


def run_slow_consumer(
    images: ImageSet, tools: Tools, nodes: NodeSettings
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A consumer that takes SLOW_MB_PER_S, and one that takes what the link brings."""
    rows = []
    for name, seconds, mb_per_s in ((SLOW, 4.0, SLOW_MB_PER_S), ("link_bound", 2.0, 0.0)):
        with laboratory(UNCHANGED, nodes) as lab:
            row, _ = read_watched(
                *(lab, images, tools, ()),
                seconds=seconds,
                mb_per_s=mb_per_s,
                prefetch_mb=CREDIT_MB,
            )
        arrivals, begin_s = row.pop("arrivals"), row.pop("begin_s")
        row["series_mb_per_s"] = series(arrivals, begin_s)
        # By what was carried: what is read ahead and not taken has been worked for as well.
        carried = row["compute"]["wire_received_bytes"]
        row["cpu_s_per_wire_gb"] = (
            (row["storage"]["cpu_s"] + row["compute"]["cpu_s"]) / carried * 1e9
        )
        row["ahead_mb"] = (carried - row["bytes"]) / 1e6
        rows.append({"case": name, "program": "emlio", **row})
    return rows[0], rows[1]


def conditions(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What runs were made with and under: a run on a busy machine shows here."""
    return {
        **runs[0]["settings"],
        "streams": [run["streams"] for run in runs],  # as many as EMLIO took
        "least_idle_share": min(run["idle_share"] for run in runs),
        "most_foreign_share": max(run["foreign_share"] for run in runs),
        "most_late_us": max(run["emulator_late_us"] for run in runs),
        "dropped": [run["dropped"] for run in runs],
    }


def case_results(case: Case, runs: Sequence[dict[str, Any]]) -> list[Result]:
    """The figures of EMLIO's runs through a case."""
    settings = {
        "case": case.title,
        "rate_mbit": RATE_MBIT,
        "rtt_ms": case.rtt_ms,
        "queue_bytes": QUEUE_BYTES,
        "phases": [{"phase": p.name, "seconds": p.seconds, **p.link} for p in case.phases],
        **conditions(runs),
    }
    results = []
    for i, phase in enumerate(case.phases):
        rows = [run["phases"][i] for run in runs]
        carries = goodput_mbit(phase.link.get("rate_mbit", RATE_MBIT), MTU) / 8
        name = f"bad_{case.name}_{phase.name}"
        over = [row["steady_mb_per_s"] / carries for row in rows]
        results.append(summarize(f"{name}_over_link", over, "1", **settings))
        if i == 0:
            continue
        waits = [row["longest_wait_s"] for row in rows]
        results.append(summarize(f"{name}_longest_wait_s", waits, "s", **settings))
        times = [row["until_steady_s"] for row in rows if row["until_steady_s"] is not None]
        if len(times) == len(rows):
            results.append(summarize(f"{name}_until_steady_s", times, "s", **settings))
    return results


def slow_results(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[Result]:
    """What a slow consumer costs, beside one that takes all."""
    settings = {
        "rate_mbit": RATE_MBIT,
        "rtt_ms": 30.0,
        "consumer_mb_per_s": SLOW_MB_PER_S,
        **conditions([run for pair in pairs for run in pair]),
    }
    slow, bound = ([pair[i] for pair in pairs] for i in (0, 1))
    name = f"bad_{SLOW}"

    def peaks(runs: Sequence[dict[str, Any]], node: str) -> list[float]:
        return [run[node]["peak_memory_bytes"] / 2**20 for run in runs]

    cpu = [
        a["cpu_s_per_wire_gb"] / b["cpu_s_per_wire_gb"] for a, b in zip(slow, bound, strict=True)
    ]
    held = [1e6 * run["ahead_mb"] / (CREDIT_MB * 2**20) for run in slow]
    return [
        summarize(f"{name}_mb_per_s", [run["mb_per_s"] for run in slow], "MB/s", **settings),
        summarize(f"{name}_cpu_over_link_bound", cpu, "1", **settings),
        summarize(*(f"{name}_cpu_s_per_s", [_cpu_s_per_s(run) for run in slow], "s/s"), **settings),
        summarize(f"{name}_ahead_over_credit", held, "1", **settings),
        *(
            summarize(f"{which}_{node}_memory_mib", peaks(runs, node), "MiB", **settings)
            for which, runs in ((name, slow), ("bad_link_bound", bound))
            for node in ("storage", "compute")
        ),
    ]


def _cpu_s_per_s(row: dict[str, Any]) -> float:
    return float((row["storage"]["cpu_s"] + row["compute"]["cpu_s"]) / row["seconds"])


def phases_markdown(runs: Sequence[dict[str, Any]]) -> str:
    """Medians of all cases as a table: of each phase its rate and the time until it was steady."""
    lines = [
        "| case | program | streams | n | phase | link | MB/s, steady | steady after, s "
        "| longest wait, s |",
        "|---|---|---|---:|---|---|---:|---:|---:|",
    ]
    for case, program in itertools.product(CASES, ("emlio", "iperf3")):
        chosen = [r for r in runs if r["case"] == case.name and r["program"] == program]
        for i, phase in enumerate(case.phases if chosen else ()):
            rows = [run["phases"][i] for run in chosen]
            times = [row["until_steady_s"] for row in rows]
            after = "-" if None in times else f"{statistics.median(times):.2f}"
            counts = sorted({run["streams"] for run in chosen})
            streams = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
            link = ", ".join(f"{key} = {value}" for key, value in phase.link.items())
            lines.append(
                f"| {case.title if i == 0 else ''} | {program if i == 0 else ''} | {streams} "
                f"| {len(rows)} | {phase.name} | {link} "
                f"| {number(statistics.median(row['steady_mb_per_s'] for row in rows))} | {after} "
                f"| {statistics.median(row['longest_wait_s'] for row in rows):.2f} |"
            )
    return "\n".join(lines)


def find_emlio() -> Path:
    for folder in (REPOSITORY / "build/release/tools/emlio", REPOSITORY / ".venv/bin"):
        if (folder / "emlio").exists():
            return folder / "emlio"
    raise BenchmarkError("no emlio executable: run scripts/setup")


def sysctl(text: str) -> tuple[str, str]:
    """For argparse: NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = [case.name for case in CASES] + [SLOW]
    parser = argparse.ArgumentParser(prog="benchmarks/wan/run --bad-cases", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--references", type=int, default=1, metavar="N", help="runs of iperf3")
    parser.add_argument("--congestion", help="default: the system's")
    parser.add_argument(
        *("--sysctl",),
        type=sysctl,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of all nodes, such as net.ipv4.tcp_rto_max_ms=1000",
    )
    parser.add_argument("--emlio", type=Path, help="the executable")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of images")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Runs all cases that are asked for; prints tables."""
    options = parse(arguments)
    nodes = NodeSettings(options.congestion, sysctls=dict(options.sysctl))
    runs: list[dict[str, Any]] = []
    results: list[Result] = []
    try:
        tools = Tools(Environments(options.cache), (options.emlio or find_emlio()).absolute())
        images = make_images(options.cache / "images", IMAGES, IMAGE_BYTES)
        for case in CASES:
            if case.name in options.cases:
                say(f"{case.name}: {case.title}")
                mine = [run_case(case, images, tools, nodes) for _ in range(options.rounds)]
                runs += mine
                streams = max(run["streams"] for run in mine)
                for _ in range(options.references if case.reference else 0):
                    runs.append(run_reference(case, nodes, streams))
                results += case_results(case, mine)
        if SLOW in options.cases:
            say(f"{SLOW}: {SLOW_MB_PER_S:g} MB/s")
            pairs = [run_slow_consumer(images, tools, nodes) for _ in range(options.rounds)]
            runs += [row for pair in pairs for row in pair]
            results += slow_results(pairs)
    except (BenchmarkError, LabError) as error:
        say(f"error: {error}")
        return 1
    finally:
        if options.json is not None and runs:
            versions = WatchedLoader.versions(tools)
            write_json(options.json, environment(versions), results, runs=runs)
    if any(run["case"] != SLOW for run in runs):
        print(phases_markdown(runs) + "\n")
    print(markdown(results, GOALS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
