# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A folder that looks like /sys and /proc of a host whose counters go on by themselves."""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RANGE_UJ = 262_143_328_850


@dataclass
class Zone:
    """One powercap zone that draws the same power all the time."""

    folder: str
    name: str
    watts: float
    start_uj: int = 1_000_000
    range_uj: int = RANGE_UJ


@dataclass
class EnergyHost:
    """Use as a context manager: meanwhile a thread moves the counters every few milliseconds."""

    root: Path
    zones: list[Zone] = field(default_factory=list)
    hypervisor: bool = False

    def __enter__(self) -> "EnergyHost":
        """Makes the folder and starts the thread."""
        flags = "fpu hypervisor" if self.hypervisor else "fpu"
        self._write("proc/cpuinfo", f"vendor_id\t: GenuineIntel\nflags\t\t: {flags}\n")
        self._write("proc/stat", "cpu  100 0 100 1000 0 0 0 0 0 0\n")
        for zone in self.zones:
            self._write(f"sys/class/powercap/{zone.folder}/name", f"{zone.name}\n")
            self._write(
                f"sys/class/powercap/{zone.folder}/max_energy_range_uj", f"{zone.range_uj}\n"
            )
            self._write(f"sys/class/powercap/{zone.folder}/energy_uj", f"{zone.start_uj}\n")
        self._files = [
            (self.root / f"sys/class/powercap/{zone.folder}/energy_uj").open("r+b", buffering=0)
            for zone in self.zones
        ]
        self._begin = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drive)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join()
        for file in self._files:
            file.close()

    def _write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def _drive(self) -> None:
        while not self._stop.wait(0.005):
            elapsed = time.monotonic() - self._begin
            for zone, file in zip(self.zones, self._files, strict=True):
                value = int(zone.start_uj + zone.watts * elapsed * 1e6) % zone.range_uj
                # Of one width, so that nobody reads half of an old and half of a new value.
                file.seek(0)
                file.write(f"{value:020d}\n".encode())


def two_sockets(root: Path) -> EnergyHost:
    """50 W and 30 W of packages, 10 W and 8 W of memory, 35 W of them in cores."""
    return EnergyHost(
        root,
        [
            Zone("intel-rapl:0", "package-0", 50, 11_000_000_000),
            Zone("intel-rapl:0:0", "core", 35, 71_000_000_000),
            Zone("intel-rapl:0:1", "dram", 10, 21_000_000_000),
            Zone("intel-rapl:1", "package-1", 30, 52_000_000_000),
            Zone("intel-rapl:1:1", "dram", 8, 31_000_000_000),
        ],
    )


TWO_SOCKETS_WATTS = 98.0
