# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Eleven hosts with a known truth: what each domain draws, as a closed form of time.

Times are seconds of CLOCK_MONOTONIC. Nothing here reads a file or a clock.
"""

import math
from dataclasses import dataclass
from typing import Literal

# What a user asks for. Everything else on a host lies inside one of these, or contains them.
Part = Literal["cpu", "dram", "gpu"]

PACKAGE_RANGE_UJ = 262_143_328_850
DRAM_RANGE_UJ = 65_712_999_613


@dataclass(frozen=True)
class Zone:
    """A powercap zone that draws the same power all the time.

    `part` is None for one whose joules another zone has as well. With `wraps_once`, `start_uj` does
    not count: the counter begins so that it reaches its range when the scenario wants it.
    """

    zone: str  # "intel-rapl:0:1"
    name: str  # "dram"
    watts: float
    start_uj: int
    range_uj: int = PACKAGE_RANGE_UJ
    part: Part | None = None
    wraps_once: bool = False

    def counter_uj(self, elapsed_s: float, lead_s: float) -> int:
        """What the counter shows so long after its begin."""
        start = self.start_uj
        if self.wraps_once:
            start = self.range_uj - round(self.watts * lead_s * 1e6)
        return (start + math.floor(self.watts * elapsed_s * 1e6)) % self.range_uj

    def joules(self, begin_s: float, end_s: float) -> float:
        return self.watts * (end_s - begin_s)


@dataclass(frozen=True)
class Gpu:
    """A GPU: `watts` all the time, or a square wave of factors of it that begins at time 0."""

    uuid: str
    watts: float
    period_s: float = 0
    high_share: float = 0.5
    high: float = 1
    low: float = 1
    has_counter: bool = True
    # Half of what is common, so that a reading at an edge of the window is off by less than 1 % of
    # it for every tool.
    refresh_ms: int = 50
    offset_j: int = 123_456  # what was used before: no tool may report it

    def stub_line(self) -> str:
        """A line of the file that the library standing in for NVML reads."""
        words = [
            f"uuid={self.uuid}",
            f"watts={self.watts}",
            f"refresh_ms={self.refresh_ms}",
            f"offset_j={self.offset_j}",
        ]
        if self.period_s:
            words += [f"period_s={self.period_s}", f"high_share={self.high_share}"]
            words += [f"high={self.high}", f"low={self.low}"]
        if not self.has_counter:
            words.append("energy=no")
        return " ".join(words)

    def joules(self, begin_s: float, end_s: float) -> float:
        return self._until(end_s) - self._until(begin_s)

    def _until(self, time_s: float) -> float:
        if not self.period_s:
            return self.watts * time_s
        high_s = self.period_s * self.high_share
        periods, rest = divmod(time_s, self.period_s)
        whole = high_s * self.high + (self.period_s - high_s) * self.low
        part = min(rest, high_s) * self.high + max(0.0, rest - high_s) * self.low
        return self.watts * (periods * whole + part)


@dataclass(frozen=True)
class Scenario:
    """A host, how long is measured on it, and what may be said instead of a number."""

    name: str
    title: str
    zones: tuple[Zone, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    window_s: float = 6
    readable: bool = True  # whether those who measure may read the counters
    hypervisor: bool = False  # whether the CPU says that it is a virtual one
    power_pmu: bool = False  # the kernel's own counter of time stands in for RAPL
    # A regular expression of causes for which there may be no number; empty: there has to be one.
    causes: str = ""

    @property
    def has_truth(self) -> bool:
        """Whether anybody can know what was used: without counters nobody can."""
        return self.readable and bool(self.zones or self.gpus)

    def truth(self, begin_s: float, end_s: float) -> dict[Part, float]:
        """Joules of each part of the host between two times; empty when nobody can know them."""
        if not self.has_truth:
            return {}
        found: dict[Part, float] = {}
        for zone in self.zones:
            if zone.part is not None:
                found[zone.part] = found.get(zone.part, 0.0) + zone.joules(begin_s, end_s)
        for gpu in self.gpus:
            found["gpu"] = found.get("gpu", 0.0) + gpu.joules(begin_s, end_s)
        return found


TWO_SOCKETS = (
    Zone("intel-rapl:0", "package-0", 50, 11_000_000_000, part="cpu"),
    Zone("intel-rapl:0:0", "dram", 10, 21_000_000_000, DRAM_RANGE_UJ, part="dram"),
    Zone("intel-rapl:1", "package-1", 30, 52_000_000_000, part="cpu"),
    Zone("intel-rapl:1:0", "dram", 8, 31_000_000_000, DRAM_RANGE_UJ, part="dram"),
)

SCENARIOS = (
    Scenario("plain", "two sockets with memory", TWO_SOCKETS),
    Scenario(
        "psys",
        "a platform zone beside them",
        (*TWO_SOCKETS, Zone("intel-rapl:2", "psys", 140, 91_000_000_000)),
    ),
    Scenario(
        "wrap",
        "a package counter begins again once",
        (
            Zone("intel-rapl:0", "package-0", 50, 0, part="cpu", wraps_once=True),
            *TWO_SOCKETS[1:],
        ),
    ),
    Scenario(
        "fast-wrap",
        "package counters begin again every 4 and 7 s",
        (
            Zone("intel-rapl:0", "package-0", 100, 100_000_000, 400_000_000, part="cpu"),
            Zone("intel-rapl:1", "package-1", 60, 200_000_000, 400_000_000, part="cpu"),
        ),
        window_s=10,
        causes="more than one range|ambiguous",
    ),
    Scenario(
        "mmio",
        "a package's zone twice, over MSR and over MMIO",
        (*TWO_SOCKETS, Zone("intel-rapl-mmio:0", "package-0", 50, 11_000_000_000)),
    ),
    Scenario(
        "dies",
        "two dies of one package",
        (
            Zone("intel-rapl:0", "package-0-die-0", 50, 11_000_000_000, part="cpu"),
            TWO_SOCKETS[1],
            Zone("intel-rapl:1", "package-0-die-1", 30, 52_000_000_000, part="cpu"),
            TWO_SOCKETS[3],
        ),
    ),
    Scenario(
        "core",
        "cores and graphics inside the package",
        (
            Zone("intel-rapl:0", "package-0", 50, 11_000_000_000, part="cpu"),
            Zone("intel-rapl:0:0", "core", 35, 71_000_000_000),
            Zone("intel-rapl:0:1", "uncore", 5, 61_000_000_000),
        ),
    ),
    Scenario(
        "unreadable",
        "counters that only root may read",
        TWO_SOCKETS,
        readable=False,
        causes="(?i)permission|not readable|read access|EACCES",
    ),
    Scenario(
        "none",
        "a virtual machine without counters",
        hypervisor=True,
        causes="(?i)virtual machine|no (powercap|rapl|energy counter)|(powercap|rapl)[^.]*"
        "(not (found|available|supported)|missing|does not exist)",
    ),
    Scenario(
        "gpu-power",
        "two sockets, and two GPUs that know their power but not their energy",
        TWO_SOCKETS,
        (
            Gpu("GPU-11111111-1111-1111-1111-111111111111", 100, has_counter=False),
            Gpu("GPU-22222222-2222-2222-2222-222222222222", 250, has_counter=False),
        ),
        window_s=10,
        causes="(?i)not ?supported|faster than it is sampled",
    ),
    Scenario(
        "square-wave",
        "two sockets, and a GPU that draws 1,050 W and 175 W in turns of 1.3 s",
        TWO_SOCKETS,
        (
            Gpu(
                *("GPU-33333333-3333-3333-3333-333333333333", 350),
                period_s=1.3,
                high_share=0.2,
                high=3,
                low=0.5,
            ),
        ),
        window_s=26,
    ),
)

# Not one of the eleven: it needs the right to count events of a CPU.
POWER_PMU = Scenario(
    "power-pmu",
    "the power PMU of perf_event_open",
    (
        Zone("power/energy-pkg/", "package-0", 50, 0, part="cpu"),
        Zone("power/energy-ram/", "dram", 10, 0, part="dram"),
    ),
    power_pmu=True,
)
