# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Does a link do what it is set to? What is measured on one that does not is void."""

import contextlib
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.wanlab.lab import Lab, LabError, Node
from benchmarks.wanlab.settings import DIRECTIONS, DirectionName, Link

PROBE = Path(__file__).with_name("probe.py")
ETHERNET_BYTES = 38
TCP_HEADER_BYTES = 52  # IPv4 and TCP with timestamps

# A Python program is woken, and this is measured with it: so much more than set is allowed.
RTT_TOLERANCE_MS = 0.5
RTT_TOLERANCE_SHARE = 0.02
# What waits in receive buffers when the clock starts is counted as well.
RATE_AT_MOST = 1.05
RATE_AT_LEAST = 0.93
# Of counted packets; a link that is right fails once in ten thousand times.
SIGMAS = 4.0

ECHOES = 200
ECHO_INTERVAL_S = 0.01
COUNTED_PER_S = 5_000
COUNTED_SHARE_OF_RATE = 0.2
RATE_STREAMS = 8
SECONDS = 3.0


@dataclass(frozen=True)
class Check:
    """A measurement beside what it should be: within [low, high]; None is no limit."""

    what: str
    unit: str
    wanted: float | None
    measured: float
    low: float | None = None
    high: float | None = None

    @property
    def ok(self) -> bool:
        return (self.low is None or self.measured >= self.low) and (
            self.high is None or self.measured <= self.high
        )

    def __str__(self) -> str:
        wanted = "no limit" if self.wanted is None else f"{self.wanted:,.4g}"
        bounds = ""
        if self.low is not None or self.high is not None:
            low = "" if self.low is None else f"{self.low:,.4g}"
            high = "" if self.high is None else f"{self.high:,.4g}"
            bounds = f"{low} … {high}"
        verdict = "ok" if self.ok else "WRONG"
        return (
            f"{self.what:<28} {wanted:>10} {self.measured:>10,.4g} {self.unit:<8} "
            f"{bounds:<20} {verdict if bounds else ''}"
        ).rstrip()


HEADING = f"{'what':<28} {'set':>10} {'measured':>10} {'':<8} allowed"


@dataclass
class Verdict:
    """What was measured on one link."""

    checks: list[Check] = field(default_factory=list)
    # Of the emulator while rates were measured; empty where the kernel emulates.
    emulator: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def table(self) -> str:
        lines = [HEADING, *map(str, self.checks)]
        lines += [f"emulator {name:<19} {value:>21,.4g}" for name, value in self.emulator.items()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "checks": [{**vars(check), "ok": check.ok} for check in self.checks],
            "emulator": self.emulator,
        }


def goodput_mbit(rate_mbit: float, mtu: int) -> float:
    """The payload that TCP moves over a wire of that rate."""
    return rate_mbit * (mtu - TCP_HEADER_BYTES) / (mtu + ETHERNET_BYTES)


@contextlib.contextmanager
def _probe_server(node: Node, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A server of probe.py; yields its port."""
    process = node.popen(
        [sys.executable, PROBE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise LabError(f"probe.py does not start: {process.communicate()[1][-1000:]}")
        yield int(line), process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _probe(node: Node, *arguments: object, timeout_s: float = 60) -> dict[str, Any]:
    command = [sys.executable, str(PROBE), *map(str, arguments)]
    result: dict[str, Any] = json.loads(node.run(command, timeout_s=timeout_s).stdout)
    return result


@dataclass(frozen=True)
class _Ends:
    storage: Node
    compute: Node
    storage_address: str
    compute_address: str

    def sender(self, direction: DirectionName) -> Node:
        return self.storage if direction == "to_compute" else self.compute

    def receiver(self, direction: DirectionName) -> tuple[Node, str]:
        if direction == "to_compute":
            return self.compute, self.compute_address
        return self.storage, self.storage_address


def _check_rtt(ends: _Ends, link: Link) -> Iterator[Check]:
    spread = link.to_compute.jitter_ms + link.to_storage.jitter_ms
    late = max(
        direction.reorder_by_ms if direction.reorder_percent > 0 else 0.0
        for direction in (link.to_compute, link.to_storage)
    )
    tolerance = RTT_TOLERANCE_MS + RTT_TOLERANCE_SHARE * link.rtt_ms
    with _probe_server(ends.storage, "echo-server") as (port, _):
        measured = _probe(ends.compute, "echo", ends.storage_address, port, ECHOES, ECHO_INTERVAL_S)
    rtts = sorted(measured["rtts_ms"])
    if not rtts:
        yield Check("RTT, median of echoes", "ms", link.rtt_ms, math.inf, high=link.rtt_ms)
        return
    yield Check(
        "RTT, median of echoes",
        "ms",
        link.rtt_ms,
        statistics.median(rtts),
        0.99 * link.rtt_ms - spread - 0.1,
        link.rtt_ms + spread + late + tolerance,
    )
    low, high = rtts[len(rtts) // 100], rtts[-1 - len(rtts) // 20]
    yield Check(
        "RTT, 95 % less 1 % of echoes",
        "ms",
        2 * spread,
        high - low,
        0.25 * spread if spread > 0 else None,
        2 * spread + late + 2 * tolerance,
    )
    if shutil.which("ping"):
        done = ends.compute.run(
            ["ping", "-q", "-n", "-c", "20", "-i", "0.05", ends.storage_address], check=False
        )
        if found := re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/", done.stdout):
            yield Check(
                "RTT, mean of ping",
                "ms",
                link.rtt_ms,
                float(found.group(2)),
                0.99 * link.rtt_ms - spread - 0.1,
                link.rtt_ms + spread + late + tolerance,
            )


def _share_check(what: str, share: float, count: int, total: int) -> Check:
    """A count of random events beside the share that was set."""
    deviation = 100 * (SIGMAS * math.sqrt(total * share * (1 - share)) + 0.5) / total
    return Check(
        what,
        "%",
        100 * share,
        100 * count / total,
        max(0.0, 100 * share - deviation),
        100 * share + deviation,
    )


def _check_packets(ends: _Ends, link: Link, name: DirectionName, seconds: float) -> Iterator[Check]:
    """Counts lost and overtaken packets of one direction."""
    direction = link.direction(name)
    per_s: float = COUNTED_PER_S
    if direction.rate_mbit > 0:
        wire_bits = (64 + 28 + ETHERNET_BYTES) * 8
        per_s = min(per_s, COUNTED_SHARE_OF_RATE * direction.rate_mbit * 1e6 / wire_bits)
    packets = max(100, int(per_s * seconds))
    receiver, address = ends.receiver(name)
    with _probe_server(receiver, "count-server") as (port, server):
        _probe(ends.sender(name), "count", address, port, packets, per_s)
        stdout, _ = server.communicate(timeout=60)
    counted = json.loads(stdout)
    loss = 1.0 if direction.cut else direction.loss_percent / 100
    yield _share_check(f"loss {name}", loss, packets - counted["received"], packets)
    # A late packet is overtaken when another follows within its lateness and is not late itself.
    late = direction.reorder_percent / 100
    others = per_s * direction.reorder_by_ms / 1e3
    seen = late * (1 - late ** max(1.0, others)) if others >= 1 else 0.0
    yield _share_check(f"overtaken {name}", seen, counted["overtaken"], max(1, counted["received"]))


def _rate_check(what: str, link: Link, name: DirectionName, measured: float) -> Check:
    direction = link.direction(name)
    if direction.rate_mbit == 0:
        return Check(what, "Mbit/s", None, measured, low=0.001)
    wanted = goodput_mbit(direction.rate_mbit, link.mtu)
    disturbed = any(
        each.loss_percent > 0 or each.reorder_percent > 0
        for each in (link.to_compute, link.to_storage)
    )
    low = 0.001 if disturbed else RATE_AT_LEAST * wanted
    return Check(what, "Mbit/s", wanted, measured, low, RATE_AT_MOST * wanted)


def _check_rate(ends: _Ends, link: Link, name: DirectionName, seconds: float) -> Iterator[Check]:
    receiver, _ = ends.receiver(name)
    sender_address = ends.storage_address if name == "to_compute" else ends.compute_address
    warm_s = 1.0 + 30 * link.rtt_ms / 1e3
    with _probe_server(ends.sender(name), "source") as (port, _):
        result = _probe(receiver, "sink", sender_address, port, RATE_STREAMS, warm_s, seconds)
    yield _rate_check(f"rate {name}, 8 TCP", link, name, result["mbit_per_s"])
    if name == "to_compute" and shutil.which("iperf3"):
        yield _rate_check(f"rate {name}, iperf3", link, name, _iperf3_mbit(ends, warm_s, seconds))


def _iperf3_mbit(ends: _Ends, warm_s: float, seconds: float) -> float:
    server = ends.storage.popen(
        ["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    for line in server.stdout:
        if "listening" in line:
            break
    command = ["iperf3", "-c", ends.storage_address, "-R", "-P", RATE_STREAMS, "-J"]
    command += ["-t", math.ceil(seconds), "-O", math.ceil(warm_s)]
    try:
        done = ends.compute.run([str(part) for part in command])
    finally:
        server.kill()
        server.communicate()
    bits: float = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]
    return bits / 1e6


def _emulator_figures(
    before: dict[str, Any], after: dict[str, Any], number: int
) -> tuple[dict[str, float], Iterator[Check]]:
    old, new = before["links"][number], after["links"][number]
    gigabytes = sum(
        new[name]["delivered"]["bytes"] - old[name]["delivered"]["bytes"] for name in DIRECTIONS
    )
    gigabytes /= 1e9
    figures = {
        "CPU s": new["cpu_s"] - old["cpu_s"],
        "CPU s/GB": (new["cpu_s"] - old["cpu_s"]) / gigabytes if gigabytes > 0 else math.nan,
        "GB": gigabytes,
        "late, mean us": max(new[name]["late_us"]["mean"] for name in DIRECTIONS),
        "late, most us": max(new[name]["late_us"]["max"] for name in DIRECTIONS),
    }

    def checks() -> Iterator[Check]:
        for what in ("device", "memory"):
            lost = sum(new[name]["dropped"][what] for name in DIRECTIONS)
            yield Check(f"drops of the emulator, {what}", "packets", 0, lost, high=0)
        yield Check("write errors", "frames", 0, new["write_errors"], high=0)

    return figures, checks()


def self_check(
    lab: Lab, number: int = 0, link: Link | None = None, seconds: float = SECONDS
) -> Verdict:
    """Measures a link of a laboratory in which nothing else runs; about 20 s at 30 ms.

    Args:
        lab: The laboratory.
        number: The link's number.
        link: What it is set to, where that is not what the topology says.
        seconds: How long each of five measurements takes: two count packets, three move data.
    """
    at_storage, at_compute, topology_link = lab.topology.links[number]
    link = link or topology_link
    storage, compute = lab.storage[at_storage], lab.compute[at_compute]
    ends = _Ends(storage, compute, lab.address_of(storage, number), lab.address_of(compute, number))
    verdict = Verdict()
    verdict.checks += _check_rtt(ends, link)
    for name in DIRECTIONS:
        verdict.checks += _check_packets(ends, link, name, seconds)
    before = lab.statistics() if lab.backend == "emulator" else None
    for name in DIRECTIONS:
        verdict.checks += _check_rate(ends, link, name, seconds)
    if before is not None:
        verdict.emulator, checks = _emulator_figures(before, lab.statistics(), number)
        verdict.checks += checks
    return verdict
