# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Starts a laboratory, runs commands in its nodes, and leaves nothing behind."""

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal

from benchmarks.wanlab import netem
from benchmarks.wanlab.settings import DirectionName, Topology

REPOSITORY = Path(__file__).resolve().parents[2]
PREFIX_BITS = 30
START_DEADLINE_S = 20.0
STOP_DEADLINE_S = 20.0
Backend = Literal["auto", "netem", "emulator"]


class LabError(Exception):
    """The laboratory cannot be built or does not do what it should; the message says why."""


class NotPermittedError(LabError):
    """The system allows no namespaces or no TUN devices here."""


def find_emulator() -> Path:
    """The emulator: $WANLAB_EMULATOR, or the newest build of it in the repository."""
    if given := os.environ.get("WANLAB_EMULATOR"):
        return Path(given)
    built = list(REPOSITORY.glob("build/*/benchmarks/wanlab/emulator/wanlab_emulator"))
    if not built:
        raise LabError(
            "wanlab_emulator is not built: cmake --preset release && "
            "cmake --build --preset release --target wanlab_emulator"
        )
    return max(built, key=lambda path: path.stat().st_mtime)


class Node:
    """A network namespace; made by Lab."""

    def __init__(self, lab: "Lab", name: str, entry: list[str]) -> None:
        self.name = name
        self._lab = lab
        self._entry = entry

    def __repr__(self) -> str:
        return f"Node({self.name!r})"

    def command(self, command: Sequence[str | Path]) -> list[str]:
        """The command line that runs `command` in this node."""
        return [*self._entry, *map(str, command)]

    def popen(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
        """Starts a command in this node; `options` are those of subprocess.Popen.

        The process has a session of its own unless `start_new_session` says otherwise. Whatever
        still runs in the node when the laboratory ends is killed.
        """
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("start_new_session", True)
        process: subprocess.Popen[Any] = subprocess.Popen(self.command(command), **options)
        self._lab._started.append(process)
        return process

    def run(
        self, command: Sequence[str | Path], timeout_s: float = 120, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command in this node to its end.

        Raises:
            LabError: it failed (unless `check` is false), or was not finished in time.
        """
        with self.popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                stdout, stderr = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise LabError(
                    f"{self.name}: {command[0]} was still running after {timeout_s:g} s"
                ) from None
            finally:
                if process.poll() is not None:
                    self._lab._started.remove(process)
        if check and process.returncode != 0:
            raise LabError(
                f"{self.name}: {' '.join(map(str, command))} failed ({process.returncode}): "
                f"{(stderr or stdout).strip()[-1000:]}"
            )
        return subprocess.CompletedProcess(list(command), process.returncode, stdout, stderr)

    def sysctl(self, name: str) -> str:
        """A value of this node's kernel settings, such as net.ipv4.tcp_wmem."""
        return self.run(["cat", _sysctl_path(name)]).stdout.strip()

    def set_sysctl(self, name: str, value: str) -> None:
        write = 'printf %s "$2" > "$1"'
        self.run(["sh", "-c", write, "sh", _sysctl_path(name), value])

    def set_congestion(self, algorithm: str) -> None:
        """Sets how this node's connections judge congestion; see NodeSettings."""
        known = self.sysctl("net.ipv4.tcp_available_congestion_control").split()
        if algorithm not in known:
            raise LabError(f"this kernel has no {algorithm}, only {', '.join(known)}")
        write = 'printf %s "$2" > "$1"'
        path = _sysctl_path("net.ipv4.tcp_congestion_control")
        if self.run(["sh", "-c", write, "sh", path, algorithm], check=False).returncode == 0:
            return
        for route in self.run(["ip", "-4", "route", "show"]).stdout.splitlines():
            words = route.split()
            if "congctl" in words:
                del words[words.index("congctl") : words.index("congctl") + 2]
            self.run(["ip", "-4", "route", "change", *words, "congctl", algorithm])


def _sysctl_path(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")


class Lab:
    """Nodes and links of a topology, from the start of the `with` block until its end.

    Everything that runs in the nodes ends with the block, also after an exception, SIGTERM or
    SIGKILL of this process: namespaces and devices belong to a helper process that ends with it,
    and have no names that could be left behind.
    """

    def __init__(
        self,
        topology: Topology,
        backend: Backend = "auto",
        seed: int = 1,
        emulator: Path | None = None,
    ) -> None:
        self.topology = topology
        self.storage: list[Node] = []
        self.compute: list[Node] = []
        self.backend: Literal["netem", "emulator"] = "emulator"
        # "realtime", "nice" or "normal": the emulator's priority; "kernel" with netem.
        self.priority = ""
        # What the emulator counted, once the block has ended; see README.md.
        self.final_statistics: dict[str, Any] | None = None
        self._wanted_backend = backend
        self._seed = seed
        self._program = emulator
        self._links = [link for _, _, link in topology.links]
        self._started: list[subprocess.Popen[Any]] = []
        self._stack = contextlib.ExitStack()
        self._helper: subprocess.Popen[str] | None = None
        self._control: socket.socket | None = None
        self._lock = threading.Lock()

    def link_number(self, storage: Node, compute: Node) -> int:
        """The number of the link that joins two nodes."""
        ends = (self.storage.index(storage), self.compute.index(compute))
        for number, (at_storage, at_compute, _) in enumerate(self.topology.links):
            if (at_storage, at_compute) == ends:
                return number
        raise LabError(f"no link joins {storage.name} and {compute.name}")

    def address_of(self, node: Node, link: int | None = None) -> str:
        """The address of a node on a link; on its first one where none is given."""
        is_storage = node in self.storage
        number = (self.storage if is_storage else self.compute).index(node)
        for index, (storage, compute, _) in enumerate(self.topology.links):
            if number == (storage if is_storage else compute) and link in (None, index):
                return _address(index, is_storage)
        raise LabError(f"{node.name} is not at " + ("any link" if link is None else f"link {link}"))

    def set_link(
        self, link: int | None = None, direction: DirectionName | None = None, **fields: Any
    ) -> None:
        """Changes fields of Direction, from now on; of all links, or both directions, by default.

        What waits for the wire goes at the new rate; what is further keeps its time.
        """
        if self.backend == "netem":
            numbers = range(len(self._links)) if link is None else [link]
            for number in numbers:
                changed = netem.changed(self._links[number], direction, fields)
                if reason := netem.cannot_do(changed):
                    raise LabError(f"{reason}: use the emulator")
                self._links[number] = changed
                self._configure_netem(number)
            return
        command: dict[str, Any] = {"set": fields}
        if link is not None:
            command["link"] = link
        if direction is not None:
            command["direction"] = direction
        self._ask(command)

    def statistics(self) -> dict[str, Any]:
        """What the emulator has counted so far; see README.md.

        Raises:
            LabError: the links are the kernel's (netem), which counts in `tc -s qdisc`.
        """
        if self.backend == "netem":
            raise LabError("netem has no such statistics: see tc -s qdisc in the nodes")
        statistics: dict[str, Any] = self._ask({"statistics": True})["statistics"]
        return statistics

    def __enter__(self) -> "Lab":
        with contextlib.ExitStack() as stack:
            self._stack = stack
            self._handle_sigterm()
            stack.callback(self._stop)
            self.backend = self._choose_backend()
            self._start_helper()
            for node in (*self.storage, *self.compute):
                for name, value in self.topology.node_settings.all_sysctls().items():
                    node.set_sysctl(name, value)
            if self.backend == "netem":
                for number in range(len(self._links)):
                    self._make_netem_link(number)
            if congestion := self.topology.node_settings.congestion:
                for node in (*self.storage, *self.compute):
                    node.set_congestion(congestion)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _handle_sigterm(self) -> None:
        """Makes SIGTERM end the block in order, where nobody else has a use for it."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def end(number: int, frame: FrameType | None) -> None:
            raise SystemExit(128 + number)

        signal.signal(signal.SIGTERM, end)
        self._stack.callback(signal.signal, signal.SIGTERM, signal.SIG_DFL)

    def _choose_backend(self) -> Literal["netem", "emulator"]:
        if self._wanted_backend == "emulator":
            return "emulator"
        reason = netem.why_not(self._links)
        if reason is None:
            return "netem"
        if self._wanted_backend == "netem":
            raise NotPermittedError(f"netem cannot be used: {reason}")
        return "emulator"

    def _start_helper(self) -> None:
        folder = tempfile.mkdtemp(prefix="emlio-wanlab-")
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        names = [f"storage{i}" for i in range(self.topology.storage)]
        names += [f"compute{i}" for i in range(self.topology.compute)]
        control = f"{folder}/control"
        config = {
            "nodes": names,
            "links": [self._link_config(i) for i in range(len(self._links))],
            "control": control,
            "seed": self._seed,
        }
        if self.backend == "netem":
            config["links"] = []
        program = self._program or find_emulator()
        with open(f"{folder}/errors", "w+") as errors:
            # Its own session: Ctrl-C is for us, and the end of its standard input is for it.
            self._helper = subprocess.Popen(
                [program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            line = self._tell_and_read(json.dumps(config) + "\n", START_DEADLINE_S)
            errors.seek(0)
            message = errors.read().strip()
        if not line:
            status = self._helper.wait(STOP_DEADLINE_S)
            error = NotPermittedError if status == 1 else LabError
            raise error(message or f"{program} ended ({status})")
        ready = json.loads(line)
        self.priority = "kernel" if self.backend == "netem" else ready["priority"]
        pid = ready["pid"]
        entry = ["nsenter"]
        if os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
            entry += ["--preserve-credentials", f"--user=/proc/{pid}/ns/user"]
        nodes = [
            Node(self, node["name"], [*entry, f"--net=/proc/{pid}/fd/{node['fd']}", "--"])
            for node in ready["nodes"]
        ]
        self.storage = nodes[: self.topology.storage]
        self.compute = nodes[self.topology.storage :]
        self._control = socket.socket(socket.AF_UNIX)
        self._control.settimeout(STOP_DEADLINE_S)
        self._control.connect(control)

    def _make_netem_link(self, number: int) -> None:
        storage, compute, link = self.topology.links[number]
        ends = (self.storage[storage], self.compute[compute])
        peer = ends[1]._entry[-2].removeprefix("--net=")
        ends[0].run(netem.link_command(number, peer))
        for end, is_storage in zip(ends, (True, False), strict=True):
            address = f"{_address(number, is_storage)}/{PREFIX_BITS}"
            for command in netem.end_commands(number, address, link):
                end.run(command)
        self._configure_netem(number)

    def _configure_netem(self, number: int) -> None:
        storage, compute, _ = self.topology.links[number]
        link = self._links[number]
        self.storage[storage].run(netem.qdisc_command(number, link, "to_compute"))
        self.compute[compute].run(netem.qdisc_command(number, link, "to_storage"))

    def _link_config(self, number: int) -> dict[str, Any]:
        storage, compute, link = self.topology.links[number]
        return {
            "storage": storage,
            "compute": self.topology.storage + compute,
            "storage_address": _address(number, True),
            "compute_address": _address(number, False),
            "prefix_bits": PREFIX_BITS,
            "mtu": link.mtu,
            "to_compute": link.to_compute.to_json(),
            "to_storage": link.to_storage.to_json(),
        }

    def _tell_and_read(self, text: str, timeout_s: float) -> str:
        """Writes to the helper and reads a line; empty when it ended or said nothing in time."""
        assert self._helper is not None
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._helper.stdin.write(text)
            self._helper.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._helper.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                return ""
        return self._helper.stdout.readline()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        if self._control is None:
            raise LabError("the laboratory does not run")
        with self._lock:
            self._control.sendall(json.dumps(command).encode() + b"\n")
            received = b""
            while not received.endswith(b"\n"):
                piece = self._control.recv(1 << 16)
                if not piece:
                    raise LabError("the emulator has ended")
                received += piece
        answer: dict[str, Any] = json.loads(received)
        if not answer["ok"]:
            raise LabError(answer["error"])
        return answer

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        helper, self._helper = self._helper, None
        if helper is not None:
            try:  # communicate() closes its standard input, which ends it
                lines = helper.communicate(timeout=STOP_DEADLINE_S)[0].splitlines()
                if lines:
                    self.final_statistics = json.loads(lines[-1])["statistics"]
            except subprocess.TimeoutExpired:
                helper.kill()
                helper.wait()
        # Killed by the helper, unless somebody has killed that.
        for process in self._started:
            if process.poll() is None:
                deadline = time.monotonic() + 1.0
                while process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.005)
            if process.poll() is None:
                process.kill()
                process.wait()
        self._started.clear()


def _address(link: int, is_storage: bool) -> str:
    return f"10.77.{link}.{1 if is_storage else 2}"
