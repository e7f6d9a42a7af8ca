# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What link and machine do while a run's clock runs."""

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import BenchmarkError, Sampler
from benchmarks.wanlab import Lab

SAMPLE_S = 0.05
ESTABLISHED = "01"


def steady_mb_per_s(samples: Sequence[tuple[float, int]]) -> float:
    """The rate over the last half of the time in which the middle 98 % of the bytes came.

    Connecting and the first windows are not in it, nor is what happens after the last byte.

    Args:
        samples: Seconds, and bytes that had arrived by then.
    """
    first, last = samples[0][1], samples[-1][1]
    low, high = first + 0.01 * (last - first), first + 0.99 * (last - first)
    moving = [sample for sample in samples if low <= sample[1] <= high]
    if len(moving) < 4:
        raise BenchmarkError("the run was too short for a steady rate: move more bytes")
    middle = (moving[0][0] + moving[-1][0]) / 2
    half = [sample for sample in moving if sample[0] >= middle]
    return (half[-1][1] - half[0][1]) / (half[-1][0] - half[0][0]) / 1e6


def processor_times(stat: str) -> tuple[int, int]:
    """Idle and all ticks of all processors, of the text of /proc/stat.

    Waiting for storage is idle; time that the host took away (steal) is not.
    """
    ticks = [int(word) for word in stat.partition("\n")[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


class Watch:
    """Takes note of link and machine from the mark `ready` to the mark `done`.

    A `with` block around run_once, which is given `mark`.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._sampler = Sampler(self._look, SAMPLE_S)
        self._is_sampling = contextlib.ExitStack()
        self._before: dict[str, Any] = {}
        self._after: dict[str, Any] = {}
        self._resident: subprocess.Popen[Any] | None = None

    def mark(self, word: str) -> None:
        """For run_once: the clock is about to start, or has stopped."""
        if word == "ready":
            self._before = self._state()
            self._is_sampling.enter_context(self._sampler)
        elif word == "done":
            self._is_sampling.close()
            self._after = self._state()

    @property
    def began_s(self) -> float:
        """When the clock started, by the system's monotonic clock."""
        began: float = self._before["time"]
        return began

    def _state(self) -> dict[str, Any]:
        idle, total = processor_times(Path("/proc/stat").read_text())
        return {
            "idle": idle,
            "total": total,
            "time": time.monotonic(),
            "own_cpu_s": time.process_time(),
            "link": self._lab.statistics()["links"][0],
        }

    def _look(self) -> tuple[int, int]:
        """Bytes that have arrived, and connections."""
        counted: int = self._lab.statistics()["links"][0]["to_compute"]["delivered"]["bytes"]
        return counted, self._count_connections()

    def _count_connections(self) -> int:
        assert self._resident is not None
        table = Path(f"/proc/{self._resident.pid}/net/tcp").read_text().splitlines()[1:]
        return sum(line.split()[3] == ESTABLISHED for line in table)

    def __enter__(self) -> "Watch":
        # Its /proc/PID/net is the compute node's.
        self._resident = self._lab.compute[0].popen(
            ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._resident.stdin is not None
        assert self._resident.stdout is not None
        self._resident.stdin.write(b"\n")
        self._resident.stdin.flush()
        self._resident.stdout.readline()  # it has entered the node by then
        return self

    def __exit__(self, *_: object) -> None:
        self._is_sampling.close()
        assert self._resident is not None
        with contextlib.suppress(OSError):
            self._resident.communicate(timeout=10)

    def findings(self, nodes_cpu_s: float) -> dict[str, Any]:
        """What a row says of link and machine.

        Args:
            nodes_cpu_s: What both nodes' processes have used between the marks.
        """
        before, after = self._before, self._after
        ticks = after["total"] - before["total"]
        idle = (after["idle"] - before["idle"]) / ticks if ticks else 0.0
        seconds = after["time"] - before["time"]
        emulator_s = after["link"]["cpu_s"] - before["link"]["cpu_s"]
        own_s = nodes_cpu_s + emulator_s + after["own_cpu_s"] - before["own_cpu_s"]
        own = own_s / seconds / (os.cpu_count() or 1)
        samples = self._sampler.samples
        try:
            steady: float | None = steady_mb_per_s([(at_s, size) for at_s, (size, _) in samples])
        except BenchmarkError:
            steady = None
        return {
            "idle_share": idle,
            "foreign_share": max(0.0, 1.0 - idle - own),  # by nothing that belongs to the run
            "steady_wire_mb_per_s": steady,
            "connections": max(connections for _, (_, connections) in samples),
            "emulator_cpu_s": emulator_s,
            **_direction(before["link"]["to_compute"], after["link"]["to_compute"]),
        }


def _direction(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dropped": {name: after["dropped"][name] - before["dropped"][name] for name in DROPS},
        "emulator_late_us": late_us(before, after),
    }


def late_us(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """How much later than due a frame came on average."""
    frames = [side["delivered"]["frames"] for side in (before, after)]
    sums = [
        side["late_us"]["mean"] * count for side, count in zip((before, after), frames, strict=True)
    ]
    came = frames[1] - frames[0]
    return max(0.0, (sums[1] - sums[0]) / came) if came else 0.0


DROPS = ("queue", "loss", "memory", "device")
