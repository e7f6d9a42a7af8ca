# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that a benchmark starts, measures and ends: always its own, always by process id."""

import contextlib
import json
import os
import re
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

Sample = TypeVar("Sample")

START_DEADLINE_S = 60
STOP_DEADLINE_S = 15


class BenchmarkError(Exception):
    """A program that takes part did not do its work; the message says which and why."""


def command_line(program: str | Path, *arguments: object) -> list[str]:
    """A command; arguments that are tuples or lists are spread."""
    command = [str(program)]
    for argument in arguments:
        parts = argument if isinstance(argument, tuple | list) else [argument]
        command += [str(part) for part in parts]
    return command


def require(*programs: Path) -> None:
    """Raises where a program of the preset `release` is not built."""
    for program in programs:
        if not program.exists():
            raise BenchmarkError(f"{program} is missing: cmake --workflow --preset release")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, those that have ended included.

    Read from the process's CPU clock (clock_getcpuclockid(3)), which counts nanoseconds; /proc
    counts hundredths of a second.
    """
    return time.clock_gettime((~pid << 3) | 2)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name: state, parent and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree(pid: int) -> list[int]:
    """A process and all that descend from it, those left out that end meanwhile."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found = [pid]
    for process in found:
        found += children.get(process, [])
    return found


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants, those that have ended and were waited for too."""
    total = 0.0
    for process in tree(pid):
        with contextlib.suppress(OSError):  # it has ended
            ended = sum(map(int, _stat(process)[13:15]))  # cutime and cstime
            total += cpu_seconds(process) + ended / os.sysconf("SC_CLK_TCK")
    return total


def tree_storage_bytes(pid: int) -> int:
    """Bytes that a process and its descendants had storage read: not those in the page cache."""
    total = 0
    for process in tree(pid):
        with contextlib.suppress(OSError):
            found = re.search(
                r"^read_bytes: (\d+)$", Path(f"/proc/{process}/io").read_text(), re.MULTILINE
            )
            total += int(found.group(1)) if found else 0
    return total


def run_json(
    command: Sequence[str], timeout_s: float = 120, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Runs a program and returns the JSON object that it prints."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=env,
        )
    except OSError as error:
        raise BenchmarkError(f"{name}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{name} was still running after {timeout_s:g} s") from error
    if done.returncode != 0:
        raise BenchmarkError(f"{name} failed ({done.returncode}): {done.stderr.strip()[-2000:]}")
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise BenchmarkError(f"{name} printed no JSON: {done.stdout[:500]!r}") from error
    return result


class Background:
    """A program that runs until the end of the `with` block.

    `popen` starts it, where that has to happen elsewhere than here: it takes what subprocess.Popen
    takes.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        popen: Callable[..., "subprocess.Popen[bytes]"] = subprocess.Popen,
    ) -> None:
        self._log = log
        self._name = Path(command[0]).name
        with log.open("wb") as output:
            self._process = popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_s(self) -> float:
        return cpu_seconds(self.pid)

    def wait_until_ready(self, ready_file: Path) -> str:
        """Waits for a file that the program makes; returns what is in it."""
        self.wait_until(ready_file.exists)
        return ready_file.read_text().strip()

    def wait_for_output(self, text: str) -> None:
        """Waits until the program has printed `text`."""
        self.wait_until(lambda: text in self._log.read_text(errors="replace"))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition` holds; an error if the program has ended by then."""
        deadline = time.monotonic() + START_DEADLINE_S
        while not condition():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace")[-2000:].strip()
                raise BenchmarkError(f"{self._name} did not start: {said}")
            time.sleep(0.0005)

    def __enter__(self) -> "Background":
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class JsonServer:
    """A program that answers each line of JSON on its input with one on its output.

    Runs until the end of the `with` block. What it prints besides goes to the log.
    """

    def __init__(
        self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        self._name = log.stem
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=env,
                bufsize=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: Mapping[str, Any], timeout_s: float = 120) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        line = b""
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            while not line.endswith(b"\n"):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not select.select([self._process.stdout], [], [], left_s)[0]:
                    raise BenchmarkError(f"{self._name}: {request} took over {timeout_s:g} s")
                piece = self._process.stdout.read(1 << 16)
                if not piece:
                    raise BrokenPipeError
                line += piece
        except BrokenPipeError as error:
            log = self._log.read_text(errors="replace").strip()[-2000:]
            raise BenchmarkError(f"{self._name} ended at {request}: {log}") from error
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> "JsonServer":
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # it ends at the end of its input
        try:
            self._process.wait(0 if exception_type else STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def anonymous_bytes(pid: int) -> int:
    """The anonymous resident memory of a process, 0 once it has ended.

    Pages of mapped files are not in it: the system may take those back at any time.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(r"^RssAnon:\s*(\d+) kB", status, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0  # one that has just ended has no such line


class Sampler(Generic[Sample]):
    """Looks at something every so often during the `with` block, in a thread of its own.

    `samples` are moments, by the system's monotonic clock, and what was seen then: at least one
    when the block has ended.
    """

    def __init__(self, look: Callable[[], Sample], every_s: float) -> None:
        self.samples: list[tuple[float, Sample]] = []
        self._look = look
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")

    def _run(self) -> None:
        while True:
            self.samples.append((time.monotonic(), self._look()))
            if self._stop.wait(self._every_s):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
