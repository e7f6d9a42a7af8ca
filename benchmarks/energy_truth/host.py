# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A host of a scenario: runs a command that sees its counters in the usual places, and they move.

    unshare --mount --net [--user --map-root-user] python -m benchmarks.energy_truth.host \
        SCENARIO LEAD_S FOLDER COMMAND...

The process has a mount namespace of its own. In it, folders of /sys are covered by ones that hold
links to all that was there, and what the scenario wants. FOLDER is an empty one to work in. Network
devices are those of the namespace: loopback alone, so that nobody asks the world where it is.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.energy_truth.scenarios import POWER_PMU, SCENARIOS, Scenario, Zone
from benchmarks.energy_truth.work import SECONDS, WRAP_AT

HOST_FAILED = 125  # an exit status that is not the command's
STEP_S = 0.001  # real counters move about as often
MS_BIND, MS_REC = 4096, 16384
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
GPUS = "EMLIO_STUB_NVML"  # names the file that the stand-in for NVML reads

_libc = ctypes.CDLL(None, use_errno=True)


class Drive:
    """Moves the counters of zones, from now on, as time passes.

    `stood_s` is the longest time for which they stood still, because the machine was busy.
    """

    def __init__(self, zones: Sequence[Zone], files: Sequence[Path], lead_s: float) -> None:
        self._zones = zones
        self._lead_s = lead_s
        self._files = [os.open(file, os.O_WRONLY | os.O_CREAT, 0o444) for file in files]
        self._ended = threading.Event()
        self.begin_s = self._written_s = time.monotonic()
        self.stood_s = 0.0
        self._write()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Drive":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for file in self._files:
            os.close(file)

    def _run(self) -> None:
        with contextlib.suppress(PermissionError):  # 5 % of a core, which must come in time
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        while not self._ended.is_set():
            self._write()
            time.sleep(STEP_S)

    def _write(self) -> None:
        now = time.monotonic()
        elapsed = now - self.begin_s
        self.stood_s = max(self.stood_s, now - self._written_s)
        self._written_s = now
        for zone, file in zip(self._zones, self._files, strict=True):
            # Of one width: who reads up to the end of the file would see the rest of a longer
            # number behind a shorter one that came before.
            os.pwrite(file, b"%020d\n" % zone.counter_uj(elapsed, self._lead_s), 0)


def mount(source: str | Path, target: str | Path, kind: str = "", flags: int = 0) -> None:
    words = [str(word).encode() for word in (source, target, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount {source} at {target}")


def copy_with_links(folder: Path, original: Path, without: Iterable[str]) -> None:
    """Fills a folder with links to all that another one has."""
    folder.mkdir(parents=True)
    for entry in original.iterdir():
        if entry.name not in without:
            (folder / entry.name).symlink_to(entry)


def lay_out_powercap(zones: Sequence[Zone], folder: Path, classes: Path) -> list[Path]:
    """The powercap tree as the kernel has it, links and all; the files of the counters."""
    folder.mkdir()
    classes.mkdir()
    files = []
    for zone in zones:
        control = zone.zone.split(":")[0]
        around, _, _ = zone.zone.rpartition(":")
        place = Path("/sys/devices/virtual/powercap", control)
        if not (folder / control).exists():
            (folder / control).mkdir()
            (folder / control / "enabled").write_text("1\n")
            (folder / control / "subsystem").symlink_to("/sys/class/powercap")
            (classes / control).symlink_to(place)
        inside = [control] + ([around] if ":" in around else []) + [zone.zone]
        here = folder.joinpath(*inside)
        here.mkdir()
        (here / "name").write_text(f"{zone.name}\n")
        (here / "enabled").write_text("1\n")
        (here / "max_energy_range_uj").write_text(f"{zone.range_uj}\n")
        (here / "subsystem").symlink_to("/sys/class/powercap")
        (classes / zone.zone).symlink_to(Path("/sys/devices/virtual/powercap", *inside))
        files.append(here / "energy_uj")
    return files


def lay_out_power_pmu(zones: Sequence[Zone], folder: Path) -> None:
    """A power PMU whose events are the kernel's clock of CPU 0: 1e9 a second, for real."""
    (folder / "events").mkdir(parents=True)
    (folder / "format").mkdir()
    (folder / "type").write_text("1\n")  # software events
    (folder / "cpumask").write_text("0\n")
    (folder / "format/event").write_text("config:0-7\n")
    for zone in zones:
        event = folder / "events" / zone.zone.split("/")[1]
        event.write_text("event=0x00\n")
        event.with_name(event.name + ".scale").write_text(f"{zone.watts * 1e-9:.17e}\n")
        event.with_name(event.name + ".unit").write_text("Joules\n")


def cpuinfo(text: str, hypervisor: bool) -> str:
    """/proc/cpuinfo as that of an Intel server, whatever this machine is."""
    for key, value in (
        ("vendor_id", "GenuineIntel"),
        ("model name", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"),
        ("cpu family", "6"),
        ("model", "85"),
    ):
        text = re.sub(rf"(?m)^({key}\s*: ).*$", rf"\g<1>{value}", text)
    text = re.sub(r"(?m)^(flags\b.*?) hypervisor\b", r"\1", text)
    return re.sub(r"(?m)^(flags\b.*)$", r"\1 hypervisor", text) if hypervisor else text


def build(scenario: Scenario, folder: Path) -> list[Path]:
    """Makes this process's /sys and /proc those of the scenario; the files of the counters."""
    mount("tmpfs", folder, "tmpfs")
    system = folder / "sys"
    system.mkdir()
    mount("/sys", system, flags=MS_BIND | MS_REC)
    classes, virtual, pmus = folder / "class", folder / "virtual", folder / "pmus"
    copy_with_links(classes, system / "class", ("powercap", "hwmon"))
    copy_with_links(virtual, system / "devices/virtual", ("powercap",))
    copy_with_links(pmus, system / "bus/event_source/devices", ("power",))
    covers = [(classes, "/sys/class"), (virtual, "/sys/devices/virtual")]
    covers.append((pmus, "/sys/bus/event_source/devices"))
    empty = folder / "empty"
    empty.mkdir()
    covers.append((empty, "/sys/bus/pci/devices"))
    information = folder / "cpuinfo"
    information.write_text(cpuinfo(Path("/proc/cpuinfo").read_text(), scenario.hypervisor))
    covers.append((information, "/proc/cpuinfo"))
    packages = sorted({z.zone for z in scenario.zones if re.fullmatch(r"package-\d", z.name)})
    last = Path(f"/sys/devices/system/cpu/cpu{(os.cpu_count() or 1) - 1}/topology")
    if len(packages) == 2 and (last / "physical_package_id").exists():
        (folder / "socket").write_text("1\n")
        covers.append((folder / "socket", str(last / "physical_package_id")))
    files: list[Path] = []
    if scenario.power_pmu:
        lay_out_power_pmu(scenario.zones, pmus / "power")
    elif scenario.zones:
        files = lay_out_powercap(scenario.zones, virtual / "powercap", classes / "powercap")
    for source, target in covers:
        if Path(target).exists():
            mount(source, target, flags=MS_BIND)
    return files


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(device, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(device, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def run(scenario: Scenario, lead_s: float, folder: Path, command: Sequence[str]) -> int:
    bring_up_loopback()
    files = build(scenario, folder)
    environment = dict(os.environ)
    if scenario.gpus:
        gpus = folder / "gpus"
        gpus.write_text("".join(gpu.stub_line() + "\n" for gpu in scenario.gpus))
        environment[GPUS] = str(gpus)
    with Drive([] if scenario.power_pmu else scenario.zones, files, lead_s) as drive:
        wraps = any(zone.wraps_once for zone in scenario.zones)
        environment[SECONDS] = str(scenario.window_s)
        environment[WRAP_AT] = str(drive.begin_s + lead_s if wraps else 0)
        before: list[str] = []
        if not scenario.readable:
            for file in files:
                file.chmod(0)
            # Root may read everything by two capabilities; this is what all others are like.
            before = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"]
        process = subprocess.Popen([*before, *command], env=environment)
        drive.stood_s = 0.0  # starting a program holds this one up, before anything is measured
        status = process.wait()
    stood_file(folder).write_text(str(drive.stood_s))
    return status


def stood_file(folder: Path) -> Path:
    """Where Drive.stood_s is left, outside of what the host has covered."""
    return folder.with_name("stood")


def find(name: str) -> Scenario:
    return next(scenario for scenario in (*SCENARIOS, POWER_PMU) if scenario.name == name)


if __name__ == "__main__":
    try:
        status = run(find(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
    except OSError as error:
        print(error, file=sys.stderr)
        status = HOST_FAILED
    sys.exit(status)
