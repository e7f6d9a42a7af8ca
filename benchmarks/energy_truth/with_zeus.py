# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Zeus: a window of ZeusMonitor over everything that it finds."""

import time

from benchmarks.energy_truth.scenarios import Part
from benchmarks.energy_truth.tool import Tool, answer
from benchmarks.energy_truth.work import wait


class Zeus(Tool):
    name = "zeus"
    title = "Zeus"
    package = "zeus"
    settings = "ZeusMonitor(); begin_window, end_window (sync_execution=False: no PyTorch here)"


def measure() -> None:
    from zeus.monitor import ZeusMonitor

    monitor = ZeusMonitor()
    begin = time.monotonic()
    monitor.begin_window("truth", sync_execution=False)
    _, end = wait()
    found = monitor.end_window("truth", sync_execution=False)
    energies: dict[Part, dict[int, float] | None] = {
        "cpu": found.cpu_energy,
        "dram": found.dram_energy,
        "gpu": found.gpu_energy,
    }
    parts = {part: sum(each.values()) for part, each in energies.items() if each}
    answer(parts, begin, end, found.time, found.total_energy)


if __name__ == "__main__":
    measure()
