# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Folders that look like /sys and /proc of hosts whose counters go on by themselves.

For tests; and by hand, to see known joules on a machine without counters:

    python tests/e2e/energy_host.py DIR -- COMMAND...

makes DIR, a host of 98 W, moves its counters while the command runs, and ends with its exit code.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RANGE_UJ = 262_143_328_850
STEP_S = 0.002  # real counters move about as often


@dataclass
class Zone:
    """One powercap zone that draws the same power all the time.

    With `watts_file`, whatever power that file of the host's folder says while it is there.
    """

    folder: str
    name: str
    watts: float
    start_uj: int = 1_000_000
    range_uj: int = RANGE_UJ
    watts_file: str = ""


@dataclass
class EnergyHost:
    """Use as a context manager: meanwhile a process moves the counters every few milliseconds.

    What a counter shows is a closed form of CLOCK_MONOTONIC, so that the energy of any window is
    known: its watts times the window's length, but for the time for which the process was late.
    """

    root: Path
    zones: list[Zone] = field(default_factory=list)
    hypervisor: bool = False
    boot_id: str = ""

    def __enter__(self) -> "EnergyHost":
        """Makes the folder and starts the process."""
        flags = "fpu hypervisor" if self.hypervisor else "fpu"
        self._write("proc/cpuinfo", f"vendor_id\t: GenuineIntel\nflags\t\t: {flags}\n")
        self._write("proc/stat", "cpu  100 0 100 1000 0 0 0 0 0 0\n")
        if self.boot_id:
            self._write("proc/sys/kernel/random/boot_id", f"{self.boot_id}\n")
        for zone in self.zones:
            self._write(f"sys/class/powercap/{zone.folder}/name", f"{zone.name}\n")
            self._write(
                f"sys/class/powercap/{zone.folder}/max_energy_range_uj", f"{zone.range_uj}\n"
            )
            self._write(f"sys/class/powercap/{zone.folder}/energy_uj", f"{zone.start_uj}\n")
        counters = [
            (
                str(self.root / f"sys/class/powercap/{zone.folder}/energy_uj"),
                *(zone.watts, zone.start_uj, zone.range_uj),
                str(self.root / zone.watts_file) if zone.watts_file else "",
            )
            for zone in self.zones
        ]
        self._late_file = self.root / "late"
        self._late_file.write_text("")
        self._driver = subprocess.Popen(
            [sys.executable, __file__, "--drive", json.dumps(counters), str(self._late_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._driver.stdout is not None
        assert self._driver.stdout.readline() == b"moving\n"
        return self

    def __exit__(self, *_: Any) -> None:
        """Ends the process."""
        self._driver.communicate()

    def late_s(self, begin_s: float, end_s: float) -> float:
        """The longest time, around these moments, for which the counters stood still."""
        late = STEP_S
        for line in self._late_file.read_text().splitlines():
            stood_from, stood_to = map(float, line.split())
            if stood_to >= begin_s - 0.5 and stood_from <= end_s + 0.5:
                late = max(late, stood_to - stood_from)
        return late

    def _write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def drive(counters: list[tuple[str, float, int, int, str]], late_file: str) -> None:
    """Moves counters until standard input ends."""
    with contextlib.suppress(PermissionError):  # a few percent of a core, which come in time
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    files = [os.open(path, os.O_WRONLY) for path, *_ in counters]
    os.set_blocking(sys.stdin.fileno(), False)
    begin = written = time.monotonic()
    more_joules = [0.0] * len(counters)  # than the zones' own watts, by their files
    print("moving", flush=True)
    with Path(late_file).open("a", buffering=1) as late:
        while sys.stdin.buffer.raw.read(1) is None:  # type: ignore[union-attr]
            now = time.monotonic()
            for at, (file, counter) in enumerate(zip(files, counters, strict=True)):
                _, watts, start_uj, range_uj, watts_file = counter
                if watts_file and Path(watts_file).exists():
                    others = float(Path(watts_file).read_text()) - watts
                    more_joules[at] += others * (now - written)
                joules = watts * (now - begin) + more_joules[at]
                value = int(start_uj + joules * 1e6) % range_uj
                # Of one width, so that nobody reads half of an old and half of a new value.
                os.pwrite(file, b"%020d\n" % value, 0)
            if now - written > 2 * STEP_S:
                late.write(f"{written} {now}\n")
            written = now
            time.sleep(STEP_S)


def two_sockets(root: Path, boot_id: str = "") -> EnergyHost:
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
        boot_id=boot_id,
    )


# Of each domain of two_sockets that is in the total.
TWO_SOCKETS = {"package-0": 50.0, "package-1": 30.0, "dram-0": 10.0, "dram-1": 8.0}
TWO_SOCKETS_WATTS = sum(TWO_SOCKETS.values())


def main() -> int:
    if sys.argv[1] == "--drive":
        drive(json.loads(sys.argv[2]), sys.argv[3])
        return 0
    folder, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        sys.exit("usage: energy_host.py DIR -- COMMAND...")
    with two_sockets(Path(folder), "by-hand"):
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
