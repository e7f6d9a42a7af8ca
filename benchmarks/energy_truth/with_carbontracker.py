# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""CarbonTracker: one epoch, read from the log that it writes."""

import re
import sys
import time
from pathlib import Path

from benchmarks.energy_truth.tool import JOULES_PER_KWH, Tool, answer
from benchmarks.energy_truth.work import wait

ENERGY = re.compile(r"Actual consumption[\s\S]*?Energy:\s*([\d.]+) kWh")
DURATION = re.compile(r"Duration: (\d+):(\d+):(\d+(?:\.\d+)?)")
# What it multiplies by for the building around the machine, and says so.
OVERHEAD = re.compile(r"PUE\s+coefficient of ([\d.]+)")


class CarbonTracker(Tool):
    name = "carbontracker"
    title = "CarbonTracker"
    package = "carbontracker"
    settings = (
        "CarbonTracker(epochs=1, epochs_before_pred=0); epoch_start, epoch_end, stop; "
        "the PUE that it multiplies by is divided out"
    )


def joules_in(log: str) -> float | None:
    """What the log says was used, without the share of the building."""
    energy = ENERGY.search(log)
    if energy is None:
        return None
    overhead = OVERHEAD.search(log)
    return float(energy.group(1)) * JOULES_PER_KWH / (float(overhead.group(1)) if overhead else 1)


def measure(folder: str) -> None:
    from carbontracker.tracker import CarbonTracker as Tracker

    tracker = Tracker(epochs=1, epochs_before_pred=0, log_dir=folder)
    begin = time.monotonic()
    tracker.epoch_start()
    _, end = wait()
    tracker.epoch_end()
    tracker.stop()
    log = "\n".join(file.read_text() for file in sorted(Path(folder).glob("*.log")))
    print(log)
    joules = joules_in(log)
    answer({} if joules is None else {"cpu": joules}, begin, end)


if __name__ == "__main__":
    measure(sys.argv[1])
