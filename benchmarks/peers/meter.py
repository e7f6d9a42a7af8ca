# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What a run costs on each node: processor time, memory, bytes on the wire."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from benchmarks.peers.node import Node

CPU_GROUPS = Path("/sys/fs/cgroup/cpuacct")
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
EMPTY_DEADLINE_S = 10


def cpu_s_at(samples: Sequence[tuple[float, float]], moment_s: float) -> float:
    """What had been used up at a moment, by samples before and after it."""
    before = max((sample for sample in samples if sample[0] <= moment_s), default=samples[0])
    after = min((sample for sample in samples if sample[0] > moment_s), default=samples[-1])
    if after[0] == before[0]:
        return before[1]
    share = min(1.0, max(0.0, (moment_s - before[0]) / (after[0] - before[0])))
    return before[1] + share * (after[1] - before[1])


@dataclass(frozen=True)
class Usage:
    """What a node's processes have used up so far, and what its interfaces have carried."""

    cpu_s: float
    wire_received_bytes: int | None
    wire_sent_bytes: int | None


class Group(Protocol):
    """The processes of one node, with all that they start."""

    how: str  # how the figures are come by, for the record

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command that starts a program as a member."""

    def add(self, pid: int) -> None:
        """Tells of a process that was started so."""

    def cpu_s(self) -> float:
        """User and system time of all members, those that have ended included."""

    def memory_bytes(self) -> int:
        """Anonymous and shared memory that they hold now, mapped files left out."""


class ControlGroup:
    """A Group that the kernel counts: cpuacct and memory of cgroup v1."""

    how = "cgroup v1 cpuacct and memory (rss + shmem)"

    def __init__(self, name: str) -> None:
        self._folders: list[Path] = []
        try:
            for root in (CPU_GROUPS, MEMORY_GROUPS):
                folder = Path(tempfile.mkdtemp(prefix=f"emlio-peers-{name}-", dir=root))
                self._folders.append(folder)
                if not os.access(folder / "cgroup.procs", os.W_OK):
                    raise OSError(f"{folder}: no control group can be made here")
        except OSError:
            self.close()
            raise

    def wrap(self, command: Sequence[str]) -> list[str]:
        enter = "".join(f'echo $$ > "{folder}/cgroup.procs" && ' for folder in self._folders)
        return ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *command]

    def add(self, pid: int) -> None:
        pass

    def cpu_s(self) -> float:
        return int((self._folders[0] / "cpuacct.usage").read_text()) / 1e9

    def memory_bytes(self) -> int:
        stat = (self._folders[1] / "memory.stat").read_text()
        return sum(map(int, re.findall(r"^total_(?:rss|shmem) (\d+)$", stat, re.MULTILINE)))

    def close(self) -> None:
        for folder in self._folders:
            deadline = time.monotonic() + EMPTY_DEADLINE_S
            while True:
                try:
                    folder.rmdir()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        break  # a process outlives the run; the empty group costs nothing
                    time.sleep(0.02)


class ProcessTree:
    """A Group that is put together from /proc; it needs no rights.

    Processor time comes in hundredths of a second, and that of a process which has ended counts
    once its parent has waited for it.
    """

    how = "/proc (utime, stime and those of children; Pss_Anon + Pss_Shmem)"

    def __init__(self) -> None:
        self._roots: list[int] = []
        self._last_s: dict[int, float] = {}

    def wrap(self, command: Sequence[str]) -> list[str]:
        return list(command)

    def add(self, pid: int) -> None:
        self._roots.append(pid)

    def cpu_s(self) -> float:
        stats = _process_stats()
        for root in self._roots:
            if root in stats:
                self._last_s[root] = sum(stats[pid][1] for pid in _tree(root, stats))
        return sum(self._last_s.values())

    def memory_bytes(self) -> int:
        stats = _process_stats()
        total = 0
        for root in self._roots:
            for pid in _tree(root, stats):
                with contextlib.suppress(OSError):
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                    found = re.findall(r"^Pss_(?:Anon|Shmem):\s*(\d+) kB", rollup, re.MULTILINE)
                    total += 1024 * sum(map(int, found))
        return total


def _process_stats() -> dict[int, tuple[int, float]]:
    """Parent and processor seconds, those of waited-for children included, of every process."""
    tick = os.sysconf("SC_CLK_TCK")
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                stats[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / tick)
    return stats


def _tree(root: int, stats: dict[int, tuple[int, float]]) -> list[int]:
    members, found = [root] if root in stats else [], 0
    while found < len(members):
        members += [pid for pid, (parent, _) in stats.items() if parent == members[found]]
        found += 1
    return members


@contextlib.contextmanager
def process_group(name: str) -> Iterator[Group]:
    """The best kind of group that this process may make."""
    try:
        group = ControlGroup(name)
    except OSError:
        yield ProcessTree()
        return
    try:
        yield group
    finally:
        group.close()


class MeteredNode:
    """A node whose processes are members of a group."""

    def __init__(self, node: Node, group: Group) -> None:
        self._node = node
        self._group = group

    @property
    def address(self) -> str:
        return self._node.address

    def popen(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        process = self._node.popen(self._group.wrap(command), **options)
        self._group.add(process.pid)
        return process


# Runs on a node for as long as its standard input is open, and answers each line of it.
_PROBE = """
import json, os, sys
for line in sys.stdin:
    with open("/proc/self/net/dev") as file:
        devices = [text.split(":") for text in file.readlines()[2:]]
    counters = [values.split() for name, values in devices if name.strip() != "lo"]
    print(json.dumps({
        "namespace": os.stat("/proc/self/ns/net").st_ino,
        "received": sum(int(values[0]) for values in counters),
        "sent": sum(int(values[8]) for values in counters),
    }), flush=True)
"""


class WireCounters:
    """Bytes that a node's interfaces have carried, where the node has interfaces of its own."""

    def __init__(self, node: Node) -> None:
        self._process = node.popen(
            [sys.executable, "-c", _PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        namespace = Path("/proc/self/ns/net").stat().st_ino
        self._are_its_own = bool(self._ask()["namespace"] != namespace)

    def _ask(self) -> dict[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        answer: dict[str, int] = json.loads(self._process.stdout.readline())
        return answer

    def read(self) -> tuple[int | None, int | None]:
        """Received and sent, or None twice."""
        if not self._are_its_own:
            return None, None
        answer = self._ask()
        return answer["received"], answer["sent"]

    def __enter__(self) -> "WireCounters":
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()
