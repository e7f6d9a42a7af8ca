# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The programs that take part, the data they read, and one run of each."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from benchmarks.processes import (
    Background,
    BenchmarkError,
    command_line,
    cpu_seconds,
    run_json,
)
from benchmarks.report import REPOSITORY

STREAMS = 4
BATCH_100KB = 64
# Of one megabyte, so that the first batch is the same few megabytes for every size.
SPARSE_RECORD_BYTES = 1_000_000


@dataclass(frozen=True)
class Transfer:
    """One run of one program: what arrived, how long it took, the CPU time of both ends."""

    payload_bytes: float
    seconds: float
    cpu_s: float
    records: int = 0

    @property
    def mb_per_s(self) -> float:
        return self.payload_bytes / self.seconds / 1e6

    @property
    def cpu_s_per_gb(self) -> float:
        return self.cpu_s / self.payload_bytes * 1e9

    @property
    def cpu_s_per_million(self) -> float:
        return self.cpu_s / self.records * 1e6

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds


@dataclass(frozen=True)
class Programs:
    """The executables that take part."""

    emlio: Path
    build: Path

    @property
    def raw_tcp(self) -> Path:
        return self.build / "benchmarks/loopback/raw_tcp"

    @property
    def plain_tcp(self) -> Path:
        return self.build / "benchmarks/loopback/plain_tcp"

    @property
    def sparse_shards(self) -> Path:
        return self.build / "benchmarks/loopback/sparse_shards"

    @property
    def plan_benchmark(self) -> Path:
        return self.build / "src/emlio/plan/plan_benchmark"

    def all(self) -> list[Path]:
        return [
            self.emlio,
            self.raw_tcp,
            self.plain_tcp,
            self.sparse_shards,
            self.plan_benchmark,
        ]


class Data:
    """Data sets, each a folder of shards, and room for whatever belongs to the run."""

    def __init__(self, root: Path, programs: Programs) -> None:
        self.root = root
        self._folders: dict[str, Path] = {}
        self._emlio = programs.emlio
        self._sparse_shards = programs.sparse_shards

    @property
    def names(self) -> list[str]:
        return list(self._folders)

    def pattern(self, name: str) -> str:
        return f"{self._folders[name]}/*.tfrecord"

    def shards(self, name: str) -> list[Path]:
        return sorted(self._folders[name].glob("*.tfrecord"))

    def add_synthetic(
        self, name: str, records: int, record_bytes: int, *options: str, shards: int
    ) -> None:
        self._folders[name] = self.root / name
        run_json(
            command_line(
                *(self._emlio, "convert", "synthetic", self._folders[name]),
                *("--records", records, "--record-bytes", record_bytes, "--shards", shards),
                *("--json", "-", *options),
            ),
            timeout_s=300,
        )
        for shard in self.shards(name):  # into the page cache, where writing has not left it there
            with shard.open("rb") as file:
                while file.read(1 << 22):
                    pass

    def add_sparse(self, root: Path, name: str, shards: int, gb: int) -> None:
        self._folders[name] = root / name
        command = command_line(
            *(self._sparse_shards, self._folders[name], "--shards", shards),
            *("--records", gb * 1_000_000_000 // SPARSE_RECORD_BYTES),
            *("--record-bytes", SPARSE_RECORD_BYTES),
        )
        subprocess.run(command, check=True, timeout=300)


class Emlio:
    """A running `emlio serve` of all data sets, and runs of `emlio pull` against it."""

    def __init__(self, programs: Programs, data: Data, stack: contextlib.ExitStack) -> None:
        self._executable = programs.emlio
        self._data = data
        self._servers = 0
        self._server, self._endpoint = stack.enter_context(self._serving(data.names))

    @contextlib.contextmanager
    def _serving(self, names: Sequence[str]) -> Iterator[tuple[Background, str]]:
        """A server of these data sets that takes connections, and its endpoint."""
        self._servers += 1
        ready_file = self._data.root / f"ready-{self._servers}"
        command = command_line(
            *(self._executable, "serve"),
            *(f"{name}={self._data.pattern(name)}" for name in names),
            *("--index-dir", self._data.root / "index", "--ready-file", ready_file),
        )
        with Background(command, self._data.root / f"serve-{self._servers}.log") as server:
            yield server, server.wait_until_ready(ready_file)

    def start_s(self, name: str) -> float:
        """Time that a server of one data set with indexes takes until it is ready."""
        begin = time.perf_counter()
        with self._serving([name]):
            return time.perf_counter() - begin

    @property
    def server_pid(self) -> int:
        return self._server.pid

    def url(self, name: str) -> str:
        return f"{self._endpoint}/{name}"

    def pull_command(
        self,
        name: str,
        batch_size: int,
        *options: object,
        shuffle: str = "full",
        streams: int = STREAMS,
    ) -> list[str]:
        return command_line(
            *(self._executable, "pull", self.url(name), "--batch-size", batch_size),
            *("--shuffle", shuffle, "--streams", streams, "--json", "-", *options),
        )

    def transfer(
        self,
        name: str,
        batch_size: int,
        epochs: int,
        shuffle: str = "full",
        streams: int = STREAMS,
    ) -> Transfer:
        cpu_begin = cpu_seconds(self.server_pid)
        command = self.pull_command(
            name, batch_size, "--epochs", epochs, shuffle=shuffle, streams=streams
        )
        pulled = run_json(command)
        server_cpu_s = cpu_seconds(self.server_pid) - cpu_begin
        if pulled["bad_records"] != 0:
            raise BenchmarkError(f"emlio pull left out {pulled['bad_records']} records")
        return Transfer(
            pulled["payload_bytes"],
            pulled["seconds"],
            pulled["cpu_s"] + server_cpu_s,
            pulled["records"],
        )

    def first_batch_ms(self, name: str, batch_size: int) -> float:
        pulled = run_json(self.pull_command(name, batch_size, "--batches", "1"))
        return 1000 * float(pulled["time_to_first_batch_s"])


class Iperf3:
    """A running `iperf3 -s`, and runs of the client against it."""

    def __init__(self, stack: contextlib.ExitStack, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        command = ["iperf3", "-s", "-B", "127.0.0.1", "-p", self._port, "--forceflush"]
        self._server = stack.enter_context(Background(command, log))
        self._server.wait_for_output("Server listening")

    def transfer(self, size: int) -> Transfer:
        command = command_line(
            *("iperf3", "-c", "127.0.0.1", "-p", self._port, "-P", STREAMS, "-n", size),
            *("-l", "1M", "-J"),  # the largest buffer that it takes
        )
        cpu_begin = self._server.cpu_s()
        end = run_json(command)["end"]
        server_cpu_s = self._server.cpu_s() - cpu_begin
        client_cpu_s = (
            end["cpu_utilization_percent"]["host_total"] / 100 * end["sum_sent"]["seconds"]
        )
        received = end["sum_received"]
        return Transfer(received["bytes"], received["seconds"], client_cpu_s + server_cpu_s)


def measured_by_itself(command: Sequence[str]) -> Transfer:
    """A program that is both ends and tells the CPU time of each."""
    result = run_json(command)
    return Transfer(
        result["payload_bytes"],
        result["seconds"],
        result["client_cpu_s"] + result["server_cpu_s"],
        result.get("records", 0),
    )


def raw_tcp(programs: Programs, shards: Sequence[Path], epochs: int) -> Transfer:
    return measured_by_itself(
        command_line(programs.raw_tcp, "--streams", STREAMS, "--epochs", epochs, shards)
    )


def plain_tcp(programs: Programs, size: int) -> Transfer:
    return measured_by_itself(
        command_line(programs.plain_tcp, "--streams", STREAMS, "--bytes", size)
    )


def paper_python(shards: Sequence[Path], threads: int, epochs: int) -> Transfer:
    return measured_by_itself(
        command_line(
            *(sys.executable, "-m", "benchmarks.loopback.paper_python", "--threads", threads),
            *("--batch-size", BATCH_100KB, "--epochs", epochs, shards),
        )
    )


def build(directory: Path) -> None:
    """Builds the benchmark programs in Release."""
    path = os.pathsep.join([str(REPOSITORY / ".venv/bin"), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": path}
    configure = ["cmake", "--preset", "release", "-B", str(directory)]
    for command in (configure, ["cmake", "--build", str(directory), "--parallel"]):
        subprocess.run(command, check=True, cwd=REPOSITORY, env=env, stdout=sys.stderr)


def check_requirements(programs: Programs) -> None:
    missing = [str(path) for path in programs.all() if not os.access(path, os.X_OK)]
    if missing:
        raise BenchmarkError(f"missing programs: {', '.join(missing)}")
    if shutil.which("iperf3") is None:
        raise BenchmarkError("iperf3 is missing: apt-get install iperf3")
    for module in ("zmq", "msgpack", "emlio"):
        try:
            __import__(module)
        except ImportError as error:
            raise BenchmarkError(
                f"{sys.executable} has no {module}: run scripts/setup --dev"
            ) from error


def first_line(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.partition("\n")[0].strip()


def versions(programs: Programs) -> dict[str, str]:
    import zmq

    return {
        "emlio": first_line(programs.emlio, "--version"),
        "iperf3": first_line("iperf3", "--version"),
        "pyzmq": zmq.__version__,
        "pyzmq_libzmq": zmq.zmq_version(),
        "msgpack": metadata.version("msgpack"),
    }
