# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""pyJoules: an EnergyMeter of all devices that it finds."""

import time
from collections.abc import Mapping

from benchmarks.energy_truth.scenarios import Part
from benchmarks.energy_truth.tool import Tool, answer
from benchmarks.energy_truth.work import wait

# Its names of domains, and the joules of its units. What it calls "core" is inside a package.
PARTS: dict[str, tuple[Part, float]] = {
    "package": ("cpu", 1e-6),
    "dram": ("dram", 1e-6),
    "nvidia": ("gpu", 1e-3),
}


class PyJoules(Tool):
    name = "pyjoules"
    title = "pyJoules"
    package = "pyJoules"
    settings = "EnergyMeter(DeviceFactory.create_devices()); start, stop; core and uncore not added"


def parts_of(energies: Mapping[str, float]) -> dict[Part, float]:
    parts: dict[Part, float] = {}
    for name, units in energies.items():
        part, joules = PARTS.get(name.partition("_")[0], (None, 0.0))
        if part is not None:
            parts[part] = parts.get(part, 0.0) + units * joules
    return parts


def measure() -> None:
    from pyJoules.device import DeviceFactory
    from pyJoules.energy_meter import EnergyMeter

    meter = EnergyMeter(DeviceFactory.create_devices())
    begin = time.monotonic()
    meter.start(tag="truth")
    _, end = wait()
    meter.stop()
    (sample,) = meter.get_trace()
    answer(parts_of(sample.energy), begin, end, sample.duration)


if __name__ == "__main__":
    measure()
