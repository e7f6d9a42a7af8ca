# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of storage share: a cold page cache, fio, control groups, the device."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import BenchmarkError, command_line, run_json

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def check_requirements() -> None:
    """Raises where fio is missing, or the page cache cannot be dropped."""
    if shutil.which("fio") is None:
        raise BenchmarkError("fio is missing: apt-get install fio")
    if not os.access(DROP_CACHES, os.W_OK):
        raise BenchmarkError(f"{DROP_CACHES} cannot be written: run this as root")


def drop_caches() -> None:
    os.sync()
    DROP_CACHES.write_text("3\n")


def fio_version() -> str:
    return subprocess.run(
        ["fio", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()


def describe_storage(folder: Path) -> str:
    return re.sub(r"\s+", " ", subprocess.getoutput(f"df -T {folder} | tail -1"))


def fio_read(files: Sequence[Path], *options: str, within: Sequence[str] = ()) -> dict[str, Any]:
    """Reads past the page cache, and only reads; gives fio's report of it.

    `within` is put in front of the command, as entering gives it.
    """
    drop_caches()
    report = run_json(
        [
            *within,
            *command_line(
                "fio",
                "--name=read",
                "--filename=" + ":".join(map(str, files)),
                "--readonly",
                "--direct=1",
                "--group_reporting",
                *options,
                "--output-format=json",
            ),
        ]
    )
    read: dict[str, Any] = report["jobs"][0]["read"]
    return read


@dataclass(frozen=True)
class Limit:
    """A file of a control group and what is written into it."""

    root: Path  # of the hierarchy
    file: str
    value: str


def memory_limits(mib: int) -> list[Limit]:
    """For both versions of control groups."""
    size = str(mib << 20)
    return [
        Limit(Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", size),
        Limit(Path("/sys/fs/cgroup"), "memory.max", size),
    ]


def read_rate_limits(folder: Path, bytes_per_s: int) -> list[Limit]:
    """The same for what is read from the disk on which a folder lies."""
    number = folder.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if (place / "partition").exists():
        place = place.parent
    try:
        device = (place / "dev").read_text().strip()
    except OSError as error:
        raise BenchmarkError(f"{folder} lies on no disk that could be slowed down") from error
    return [
        Limit(
            Path("/sys/fs/cgroup/blkio"),
            "blkio.throttle.read_bps_device",
            f"{device} {bytes_per_s}",
        ),
        Limit(Path("/sys/fs/cgroup"), "io.max", f"{device} rbps={bytes_per_s}"),
    ]


@contextlib.contextmanager
def entering(limits: Sequence[Limit]) -> Iterator[list[str]]:
    """A control group with the first of the limits that can be set.

    Gives the beginning of a command line that runs the rest of it in there. Without limits it is
    empty.
    """
    if not limits:
        yield []
        return
    for limit in limits:
        group = limit.root / f"emlio-benchmark-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        processes = group / "cgroup.procs"
        try:
            if not (group / limit.file).exists():
                continue
            (group / limit.file).write_text(limit.value)
            yield ["bash", "-c", f'echo $$ > "{processes}" && exec "$@"', "bash"]
            return
        finally:
            deadline = time.monotonic() + 10
            while processes.read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
            group.rmdir()
    raise BenchmarkError(f"no control group with {limits[0].file} can be made here")
