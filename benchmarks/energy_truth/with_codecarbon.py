# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""CodeCarbon: its offline tracker, which asks nobody where it is; all else as it comes."""

import sys
import time

from benchmarks.energy_truth.scenarios import Part
from benchmarks.energy_truth.tool import JOULES_PER_KWH, Tool, answer
from benchmarks.energy_truth.work import wait


class CodeCarbon(Tool):
    name = "codecarbon"
    title = "CodeCarbon"
    package = "codecarbon"
    settings = 'OfflineEmissionsTracker(country_iso_code="USA"); start, stop'


def measure(folder: str) -> None:
    from codecarbon import OfflineEmissionsTracker

    tracker = OfflineEmissionsTracker(country_iso_code="USA", output_dir=folder)
    begin = time.monotonic()
    tracker.start()
    _, end = wait()
    tracker.stop()
    found = tracker.final_emissions_data
    parts: dict[Part, float] = {
        "cpu": found.cpu_energy * JOULES_PER_KWH,
        "dram": found.ram_energy * JOULES_PER_KWH,
    }
    if found.gpu_count:
        parts["gpu"] = found.gpu_energy * JOULES_PER_KWH
    answer(parts, begin, end, found.duration, found.energy_consumed * JOULES_PER_KWH)


if __name__ == "__main__":
    measure(sys.argv[1])
