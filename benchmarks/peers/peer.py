# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of a peer, and how its reader is run."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.environments import Environments
from benchmarks.peers.images import ImageSet
from benchmarks.peers.node import Node
from benchmarks.processes import BenchmarkError
from benchmarks.report import REPOSITORY

BATCH_SIZE = 64
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
BUILD = REPOSITORY / "build/release/benchmarks/peers"

# How programs end at SIGINT that have told what they had by then.
INTERRUPTED = (1, 130)

# What a reader needs to know of what is served: an address, a folder, names. JSON values.
Service = Mapping[str, Any]
# Called by the reader's clock: with "ready" right before it starts, with "done" after its end.
Marks = Callable[[str], None]


@dataclass(frozen=True)
class Program:
    """An executable that a peer starts, and the Debian package that has it."""

    name: str
    package: str

    def find(self) -> str | None:
        return shutil.which(self.name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}")


@dataclass(frozen=True)
class Tools:
    """What is installed."""

    environments: Environments
    emlio: Path  # the executable
    python: Path = Path(sys.executable)  # the interpreter that has EMLIO's package


@dataclass(frozen=True)
class Work:
    """One run: what is read, how often, and a folder for logs and the like."""

    images: ImageSet
    passes: int
    scratch: Path
    tools: Tools
    limit_s: float = 600.0
    decode: bool = False  # the trainer's side decodes
    bound_s: float | None = None  # a run ends so long after its first batch, whatever is left


class Peer(ABC):
    """One way of reading images from another machine.

    A peer is made for one run. `prepare` makes the data in its format, on the storage side, once
    for a set of images; `serve` starts its servers on the storage node; `read` reads everything on
    the compute node and returns what the reader printed (reading.py).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    environment: ClassVar[str | None] = None
    programs: ClassVar[tuple[Program, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()  # Debian packages beside those of programs
    builds: ClassVar[tuple[str, ...]] = ()  # programs of this folder, made by the preset `release`
    mounts: ClassVar[bool] = False
    delivers_images: ClassVar[bool] = True
    in_order: ClassVar[bool] = False  # a pass begins when the one before it has come
    decodes: ClassVar[bool] = True
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, work: Work, settings: Mapping[str, Any] | None = None) -> None:
        self.work = work
        if work.decode and not self.decodes:
            raise BenchmarkError(
                f"{self.name} decodes nothing: leave it out, or run without decode"
            )
        unknown = set(settings or {}) - set(self.defaults)
        if unknown:
            raise BenchmarkError(
                f"{self.name} has no setting {', '.join(sorted(unknown))}; it has "
                + (", ".join(self.defaults) or "none")
            )
        self.settings = {**self.defaults, **(settings or {})}

    @abstractmethod
    def prepare(self) -> Path | None:
        """Makes the data in this peer's format, unless they are there; gives their folder."""

    @abstractmethod
    def serve(self, node: Node) -> AbstractContextManager[Service]:
        """Serves the data until the end of the `with` block; any number of reads."""

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        """Reads all images, every pass, in a process of its own."""
        return self.run_reader(node, service, marks)

    @classmethod
    def missing(cls, tools: Tools) -> list[str]:
        """What has to be installed before this peer can run; empty when nothing is."""
        lacking = [
            f"{program.name} (apt-get install {program.package})"
            for program in cls.programs
            if program.find() is None
        ]
        packages = f", apt-get install {' '.join(cls.packages)}" if cls.packages else ""
        lacking += [
            f"{name} (run --install {cls.name}{packages})"
            for name in cls.builds
            if not (BUILD / name).exists()
        ]
        if cls.environment is not None and not tools.environments.is_installed(cls.environment):
            lacking.append(f"environment {cls.environment} (run --install {cls.name})")
        if cls.mounts and not os.access("/dev/fuse", os.R_OK | os.W_OK):
            lacking.append("/dev/fuse: it cannot be opened here")
        return lacking

    @classmethod
    def install(cls, tools: Tools) -> None:
        """Installs what needs no rights: the environment.

        Raises:
            BenchmarkError: it cannot be installed; the message is that of pip.
        """
        if cls.environment is not None:
            tools.environments.install(cls.environment)

    @classmethod
    def versions(cls, tools: Tools) -> dict[str, str]:
        """Versions of the environment's packages, and of the Debian packages of programs."""
        found = {} if cls.environment is None else tools.environments.versions(cls.environment)
        packages = [name for program in cls.programs for name in program.package.split()]
        return {**found, **debian_versions(packages)}

    @property
    def python(self) -> Path:
        """The interpreter of readers."""
        if self.environment is None:
            raise BenchmarkError(f"{self.name} has no environment")
        return self.work.tools.environments.python(self.environment)

    def task(self, **more: Any) -> dict[str, Any]:
        """What the peer's side of its file is told."""
        return {
            **more,
            "settings": self.settings,
            "batch_size": BATCH_SIZE,
            "passes": self.work.passes,
            "bound_s": self.work.bound_s,
            "in_order": self.in_order,
            "count": self.work.images.count,
            "catalogue": str(self.work.images.catalogue),
            "decode": self.work.decode,
            "sketches": str(self.work.images.sketches()) if self.work.decode else None,
            "scratch": str(self.work.scratch),
        }

    def python_command(self, action: str, task: Mapping[str, Any]) -> list[str]:
        """The command that runs an action of this peer's file in its environment."""
        module = type(self).__module__
        return [str(self.python), "-P", "-m", module, action, json.dumps(task)]

    @staticmethod
    def python_environment(**more: str) -> dict[str, str]:
        """The environment variables of Python programs."""
        own = {"PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **own, **more}

    def run_in_environment(self, action: str, **more: Any) -> None:
        """Runs an action to its end, here and unmeasured."""
        done = subprocess.run(
            self.python_command(action, self.task(**more)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.python_environment(),
        )
        if done.returncode != 0:
            raise BenchmarkError(f"{self.name}, {action}: {done.stderr.strip()[-3000:]}")

    def run_reader(
        self, node: Node, service: Service, marks: Marks, **variables: str
    ) -> dict[str, Any]:
        """Runs the action `read` of this peer's file on a node; returns what it printed."""
        task = self.task(handshake=True, service=dict(service))
        command = self.python_command("read", task)
        log = self.work.scratch / f"{self.name}-read.log"
        with log.open("wb") as errors:
            process = node.popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self.python_environment(**variables),
                start_new_session=True,
            )
        with ended_in_time(process, self.work.limit_s):
            result = _converse(process, marks)
        if result is None:
            reason = log.read_text(errors="replace").strip()[-3000:]
            raise BenchmarkError(f"{self.name}, read ({process.returncode}): {reason}")
        return result


def debian_versions(packages: Sequence[str]) -> dict[str, str]:
    """Of those that are installed; nothing on other systems."""
    if not packages or shutil.which("dpkg-query") is None:
        return {}
    listed = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\n", *packages],
        capture_output=True,
        text=True,
    )
    pairs = [line.split(" ") for line in listed.stdout.splitlines()]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[1]}


def _converse(process: "subprocess.Popen[bytes]", marks: Marks) -> dict[str, Any] | None:
    """The harness's half of the handshake of reading.py; the reader's result, if there is one."""
    assert process.stdin is not None
    assert process.stdout is not None
    result: dict[str, Any] | None = None
    for line in process.stdout:
        word = line.decode().strip()
        if word in ("ready", "done"):
            marks(word)
            process.stdin.write(b"\n")
            process.stdin.flush()
        else:
            result = json.loads(line)
            break
    # What it has said has been checked. Ending workers and threads in order takes seconds, and
    # those of a run that was cut may be waiting for the network.
    if result is not None:
        _kill(process)
    process.stdin.close()
    process.wait()
    process.stdout.close()
    return result


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Ends all processes of a session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def ended_in_time(process: "subprocess.Popen[bytes]", limit_s: float) -> Iterator[None]:
    """Ends a process and its session when it runs too long, or when the block fails."""
    timer = threading.Timer(limit_s, _kill, (process,))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if process.poll() is None:
            _kill(process)
            process.wait()


@dataclass(frozen=True)
class Output:
    """What a program wrote to standard output, and whether it was told to stop early."""

    text: bytes
    is_cut: bool

    @property
    def ended_by(self) -> str:
        return "seconds" if self.is_cut else "bytes"


def run_command(
    node: Node,
    command: Sequence[str],
    log: Path,
    work: Work,
    marks: Marks,
    connecting_s: float = 0.0,
) -> Output:
    """Runs a program on a node, between the two marks.

    After `connecting_s` and `work.bound_s` seconds it gets SIGINT, at which it has to stop and to
    tell what has come.

    Raises:
        BenchmarkError: it failed, or did not end in time.
    """
    marks("ready")
    with log.open("wb") as errors:
        process = node.popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout is not None
    interrupted = threading.Event()

    def interrupt() -> None:
        interrupted.set()
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)  # send_signal would take its exit status

    with ended_in_time(process, work.limit_s), contextlib.ExitStack() as stack:
        if work.bound_s is not None:
            timer = threading.Timer(connecting_s + work.bound_s, interrupt)
            timer.start()
            stack.callback(timer.cancel)
        output = process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        marks("done")  # /proc still knows what the process has used
        process.communicate()
    if process.returncode not in (0, *(INTERRUPTED if interrupted.is_set() else ())):
        said = (log.read_text(errors="replace").strip() or output.decode(errors="replace"))[-2000:]
        raise BenchmarkError(f"{Path(command[0]).name} failed ({process.returncode}): {said}")
    return Output(output, process.returncode != 0)
