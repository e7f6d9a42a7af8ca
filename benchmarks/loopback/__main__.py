# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO over loopback against raw sockets, iperf3 and the paper's design in plain Python.

Run it by benchmarks/loopback/run. benchmarks/README.md says what is compared, and how.
"""

import argparse
import contextlib
import dataclasses
import functools
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.processes import (
    Background,
    BenchmarkError,
    Sampler,
    anonymous_bytes,
    command_line,
    cpu_seconds,
    run_json,
)
from benchmarks.report import (
    REPOSITORY,
    Goal,
    Result,
    environment,
    markdown,
    number,
    summarize,
    write_json,
)

HERE = Path(__file__).parent
PREFIX = "emlio-loopback-"
SHARED_MEMORY = Path("/dev/shm")
STREAMS = 4
BATCH_100KB = 64
BATCH_1KB = 4096
BATCH_100B_ONE_STREAM = 1024
BATCH_EXAMPLE = 64
MEMORY_EVERY_S = 0.005
PREFETCH_MIB = 256  # the default of emlio pull and of emlio serve --send-buffer-mb
ALLOWED_BESIDE_CREDIT_MIB = 64
PAPER_THREADS = (1, 2, 4)
# Of one megabyte, so that the first batch is the same few megabytes for every size.
SPARSE_RECORD_BYTES = 1_000_000
SPARSE_BATCH = 4

GOALS = {
    "throughput_over_raw_tcp_100kb": Goal(at_least=0.9),
    "cpu_over_raw_tcp_100kb": Goal(at_most=1.15),
    "records_per_s_1kb": Goal(at_least=1_000_000),
    "records_per_s_100b": Goal(at_least=3_000_000),
    "records_per_s_100b_one_stream": Goal(at_least=200_000),
    "throughput_over_paper_python_100kb": Goal(at_least=3),
    "cpu_over_paper_python_100kb": Goal(at_most=0.4),
    "plan_us_per_record_full": Goal(at_most=0.1),
    "first_batch_ms": Goal(at_most=100),
    "first_batch_1000_shards_over_10": Goal(at_least=0.5, at_most=1.5),
    "first_batch_100gb_over_1gb": Goal(at_least=0.5, at_most=1.5),
    "python_us_per_batch": Goal(at_most=50),
    "receiver_memory_mib": Goal(at_most=PREFETCH_MIB + ALLOWED_BESIDE_CREDIT_MIB),
    "daemon_memory_mib": Goal(at_most=PREFETCH_MIB + ALLOWED_BESIDE_CREDIT_MIB),
    "slow_receiver_memory_mib": Goal(at_most=PREFETCH_MIB + ALLOWED_BESIDE_CREDIT_MIB),
    "slow_daemon_memory_mib": Goal(at_most=PREFETCH_MIB + ALLOWED_BESIDE_CREDIT_MIB),
}


@dataclass(frozen=True)
class Sizes:
    """How much is moved: enough that starting up does not show, within the time there is."""

    repeats: int
    records_100kb: int
    epochs_100kb: int
    records_1kb: int
    epochs_1kb: int
    records_100b: int
    epochs_100b: int
    paper_epochs: int
    first_batch_repeats: int
    records_example: int


FULL = Sizes(
    repeats=7,
    records_100kb=20_000,
    epochs_100kb=3,
    records_1kb=500_000,
    epochs_1kb=6,
    records_100b=1_000_000,
    epochs_100b=3,
    paper_epochs=1,
    first_batch_repeats=15,
    records_example=64_000,
)
QUICK = Sizes(
    repeats=5,
    records_100kb=5_000,
    epochs_100kb=2,
    records_1kb=200_000,
    epochs_1kb=3,
    records_100b=1_000_000,
    epochs_100b=1,
    paper_epochs=1,
    first_batch_repeats=9,
    records_example=32_000,
)


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


def interleaved(
    runs: Mapping[str, Callable[[], Transfer]], repeats: int
) -> dict[str, list[Transfer]]:
    """Every run `repeats` times, taking turns, so that what else the machine does meets all alike.

    Every other round goes backwards: no program always follows the same one.
    """
    done: dict[str, list[Transfer]] = {name: [] for name in runs}
    for i in range(repeats):
        for name in runs if i % 2 == 0 else reversed(list(runs)):
            done[name].append(runs[name]())
        say(
            f"  round {i + 1} of {repeats}: "
            + ", ".join(f"{name} {done[name][-1].mb_per_s:,.0f} MB/s" for name in runs)
        )
    return done


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(over, under, strict=True)]


def measure_100kb(
    programs: Programs, emlio: Emlio, iperf3: Iperf3, data: Data, sizes: Sizes
) -> list[Result]:
    shards = data.shards("100kb")
    size = sizes.records_100kb * sizes.epochs_100kb * 100_000
    say("100 KB records: warming up, and looking for the paper design's best number of threads")
    emlio.transfer("100kb", BATCH_100KB, 1)
    by_threads = {
        threads: paper_python(shards, threads, sizes.paper_epochs).mb_per_s
        for threads in PAPER_THREADS
    }
    threads = max(by_threads, key=lambda count: by_threads[count])
    done = interleaved(
        {
            "emlio": lambda: emlio.transfer("100kb", BATCH_100KB, sizes.epochs_100kb),
            "raw_tcp": lambda: raw_tcp(programs, shards, sizes.epochs_100kb),
            "plain": lambda: plain_tcp(programs, size),
            "iperf3": lambda: iperf3.transfer(size),
            "paper_python": lambda: paper_python(shards, threads, sizes.paper_epochs),
        },
        sizes.repeats,
    )
    common = {
        "record_bytes": 100_000,
        "records": sizes.records_100kb,
        "epochs": sizes.epochs_100kb,
        "streams": STREAMS,
    }
    settings: dict[str, dict[str, Any]] = {
        "emlio": {**common, "batch_size": BATCH_100KB, "shuffle": "full"},
        "raw_tcp": {**common, "shuffle": "full"},
        "plain": {"bytes": size, "streams": STREAMS},
        "iperf3": {"bytes": size, "streams": STREAMS, "buffer": "1M"},
        "paper_python": {
            **common,
            "epochs": sizes.paper_epochs,
            "batch_size": BATCH_100KB,
            "shuffle": "none",
            "streams": threads,
            "mb_per_s_by_threads": {str(k): round(v) for k, v in by_threads.items()},
        },
    }
    speed = {name: [run.mb_per_s for run in runs] for name, runs in done.items()}
    cpu = {name: [run.cpu_s_per_gb for run in runs] for name, runs in done.items()}
    results = []
    for name in ("raw_tcp", "paper_python", "plain", "iperf3"):
        pair = {"emlio": settings["emlio"], name: settings[name]}
        results += [
            summarize(
                f"throughput_over_{name}_100kb", ratios(speed["emlio"], speed[name]), "1", **pair
            ),
            summarize(f"cpu_over_{name}_100kb", ratios(cpu["emlio"], cpu[name]), "1", **pair),
        ]
    for name in done:
        results += [
            summarize(f"{name}_mb_per_s_100kb", speed[name], "MB/s", **settings[name]),
            summarize(f"{name}_cpu_s_per_gb_100kb", cpu[name], "s/GB", **settings[name]),
        ]
    return results


def measure_1kb(programs: Programs, emlio: Emlio, data: Data, sizes: Sizes) -> list[Result]:
    shards = data.shards("1kb")
    say("1 KB records")
    emlio.transfer("1kb", BATCH_1KB, 1)
    done = interleaved(
        {
            "emlio": lambda: emlio.transfer("1kb", BATCH_1KB, sizes.epochs_1kb),
            "raw_tcp": lambda: raw_tcp(programs, shards, sizes.epochs_1kb),
        },
        sizes.repeats,
    )
    settings = {
        "record_bytes": 1_000,
        "records": sizes.records_1kb,
        "epochs": sizes.epochs_1kb,
        "streams": STREAMS,
        "batch_size": BATCH_1KB,
        "shuffle": "full",
    }
    rate = {name: [run.records_per_s for run in runs] for name, runs in done.items()}
    cpu = {name: [run.cpu_s_per_gb for run in runs] for name, runs in done.items()}
    return [
        summarize("records_per_s_1kb", rate["emlio"], "1/s", **settings),
        summarize(
            "throughput_over_raw_tcp_1kb", ratios(rate["emlio"], rate["raw_tcp"]), "1", **settings
        ),
        summarize("cpu_over_raw_tcp_1kb", ratios(cpu["emlio"], cpu["raw_tcp"]), "1", **settings),
        summarize("emlio_cpu_s_per_gb_1kb", cpu["emlio"], "s/GB", **settings),
        summarize("raw_tcp_cpu_s_per_gb_1kb", cpu["raw_tcp"], "s/GB", **settings),
    ]


def measure_100b(emlio: Emlio, sizes: Sizes) -> list[Result]:
    """Shuffled as with 1 KB, in stored order, and through one stream as users have reported it."""
    say("100 B records")
    runs: dict[str, dict[str, Any]] = {
        "records_per_s_100b": {"batch_size": BATCH_1KB, "shuffle": "full", "streams": STREAMS},
        "records_per_s_100b_none": {"batch_size": BATCH_1KB, "shuffle": "none", "streams": STREAMS},
        "records_per_s_100b_one_stream": {
            "batch_size": BATCH_100B_ONE_STREAM,
            "shuffle": "full",
            "streams": 1,
        },
    }
    emlio.transfer("100b", BATCH_1KB, 1)
    done = interleaved(
        {
            name: functools.partial(emlio.transfer, "100b", epochs=sizes.epochs_100b, **options)
            for name, options in runs.items()
        },
        sizes.repeats,
    )
    results = []
    for name, options in runs.items():
        settings = {
            "record_bytes": 100,
            "records": sizes.records_100b,
            "epochs": sizes.epochs_100b,
            **options,
        }
        rates = [run.records_per_s for run in done[name]]
        costs = [run.cpu_s_per_million for run in done[name]]
        results += [
            summarize(name, rates, "1/s", **settings),
            summarize(name.replace("records_per_s", "cpu_s_per_million"), costs, "s", **settings),
        ]
    return results


def measure_first_batch(emlio: Emlio, sizes: Sizes) -> list[Result]:
    say("first batch")
    batch_sizes = {
        "100kb": BATCH_100KB,
        "10x1gb": SPARSE_BATCH,
        "1000x1gb": SPARSE_BATCH,
        "10x100gb": SPARSE_BATCH,
    }
    times: dict[str, list[float]] = {name: [] for name in batch_sizes}
    for _ in range(sizes.first_batch_repeats):
        for name, batch_size in batch_sizes.items():
            times[name].append(emlio.first_batch_ms(name, batch_size))
    starts: dict[str, list[float]] = {name: [] for name in batch_sizes if name != "100kb"}
    for _ in range(sizes.repeats):
        for name, samples in starts.items():
            samples.append(1000 * emlio.start_s(name))
    sparse = {
        "record_bytes": SPARSE_RECORD_BYTES,
        "batch_size": SPARSE_BATCH,
        "shuffle": "full",
        "streams": STREAMS,
        "median_ms": {name: round(statistics.median(times[name]), 2) for name in starts},
    }
    serve = {"median_ms": {name: round(statistics.median(starts[name]), 2) for name in starts}}
    return [
        summarize(
            "first_batch_ms",
            times["100kb"],
            "ms",
            record_bytes=100_000,
            batch_size=BATCH_100KB,
            shuffle="full",
            streams=STREAMS,
        ),
        summarize(
            "first_batch_1000_shards_over_10",
            ratios(times["1000x1gb"], times["10x1gb"]),
            "1",
            **sparse,
        ),
        summarize(
            "first_batch_100gb_over_1gb", ratios(times["10x100gb"], times["10x1gb"]), "1", **sparse
        ),
        summarize("serve_start_ms_10x1gb", starts["10x1gb"], "ms", **serve),
        summarize("serve_start_ms_1000x1gb", starts["1000x1gb"], "ms", **serve),
        summarize("serve_start_ms_10x100gb", starts["10x100gb"], "ms", **serve),
    ]


def measure_python(emlio: Emlio, sizes: Sizes) -> list[Result]:
    say("Python")
    command = command_line(
        *(sys.executable, HERE / "python_overhead.py", emlio.url("example")),
        *("--batch-size", BATCH_EXAMPLE),
    )
    samples = [run_json(command)["us_per_batch"] for _ in range(sizes.repeats)]
    return [
        summarize(
            "python_us_per_batch",
            samples,
            "us",
            batch_size=BATCH_EXAMPLE,
            features={"id": "int64", "data": "bytes"},
            record_bytes=1_000,
            batches=-(-sizes.records_example // BATCH_EXAMPLE),
            clock="wall time outside the wait of next()",
        )
    ]


def peak_memory(command: Sequence[str], daemon_pid: int) -> tuple[float, float]:
    """The largest memory of a receiver and of the daemon while the receiver runs, in MiB."""

    def sampler(pid: int) -> Sampler[int]:
        return Sampler(functools.partial(anonymous_bytes, pid), MEMORY_EVERY_S)

    with sampler(daemon_pid) as of_daemon:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        with sampler(process.pid) as of_receiver:
            try:
                if process.wait(60) != 0:
                    raise BenchmarkError(f"{command[0]} failed")
            finally:
                process.kill()
                process.wait()
    receiver, daemon = (
        max(size for _, size in end.samples) / 2**20 for end in (of_receiver, of_daemon)
    )
    return receiver, daemon


def measure_memory(emlio: Emlio, sizes: Sizes) -> list[Result]:
    """With a receiver as fast as it goes, and with a training loop slower than the data."""
    say("memory")
    epochs = ("--epochs", str(sizes.epochs_100kb))
    commands = {
        "": emlio.pull_command("100kb", BATCH_100KB, *epochs),
        "slow_": command_line(
            *(sys.executable, HERE / "python_overhead.py", emlio.url("100kb"), "--raw"),
            *("--batch-size", BATCH_100KB, "--batches", 40, "--pause-ms", 25),
        ),
    }
    settings = {
        "what": "largest anonymous resident memory",
        "credit_mib": PREFETCH_MIB,
        "limit_mib": PREFETCH_MIB + ALLOWED_BESIDE_CREDIT_MIB,
        "batch_size": BATCH_100KB,
        "record_bytes": 100_000,
    }
    results = []
    for prefix, command in commands.items():
        peaks = [peak_memory(command, emlio.server_pid) for _ in range(3)]
        for i, end in enumerate(("receiver", "daemon")):
            samples = [peak[i] for peak in peaks]
            results.append(summarize(f"{prefix}{end}_memory_mib", samples, "MiB", **settings))
    return results


def measure_plan(programs: Programs) -> list[Result]:
    say("plan")
    results = run_json(command_line(programs.plan_benchmark))["results"]
    return [Result(**result) for result in results]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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


def measure(programs: Programs, root: Path, sizes: Sizes) -> list[Result]:
    results: list[Result] = []
    say(f"making data sets in {root}")
    with contextlib.ExitStack() as stack:
        # Sparse files have an extent for every record: where a file system discards freed blocks
        # at once, removing them takes minutes. In memory they are 400 MB.
        sparse_root = root
        if os.access(SHARED_MEMORY, os.W_OK):
            sparse_root = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir=SHARED_MEMORY))
            )
        data = Data(root, programs)
        data.add_synthetic("100kb", sizes.records_100kb, 100_000, shards=8)
        data.add_synthetic("1kb", sizes.records_1kb, 1_000, shards=4)
        data.add_synthetic("100b", sizes.records_100b, 100, shards=4)
        data.add_synthetic("example", sizes.records_example, 1_000, "--example", shards=4)
        data.add_sparse(sparse_root, "10x1gb", shards=10, gb=1)
        data.add_sparse(sparse_root, "1000x1gb", shards=1000, gb=1)
        data.add_sparse(sparse_root, "10x100gb", shards=10, gb=100)
        emlio = Emlio(programs, data, stack)
        iperf3 = Iperf3(stack, root / "iperf3.log")
        results += measure_100kb(programs, emlio, iperf3, data, sizes)
        results += measure_1kb(programs, emlio, data, sizes)
        results += measure_100b(emlio, sizes)
        results += measure_first_batch(emlio, sizes)
        results += measure_python(emlio, sizes)
        results += measure_memory(emlio, sizes)
    results += measure_plan(programs)
    return results


@dataclass(frozen=True)
class MatrixSize:
    """Records of one size: half a gigabyte at most, which is on disk while it is measured."""

    name: str
    record_bytes: int
    records: int
    epochs: int
    batch_size: int


MATRIX_SIZES = (
    MatrixSize("100b", 100, 1_000_000, epochs=2, batch_size=1024),
    MatrixSize("1kb", 1_000, 500_000, epochs=2, batch_size=1024),
    MatrixSize("10kb", 10_000, 50_000, epochs=3, batch_size=256),
    MatrixSize("100kb", 100_000, 5_000, epochs=3, batch_size=64),
    MatrixSize("2mb", 2_000_000, 250, epochs=3, batch_size=8),
)
MATRIX_SHUFFLES = ("none", "block", "full")
MATRIX_STREAMS = (1, 2, 4, 8)
MATRIX_REPEATS = 5


@dataclass(frozen=True)
class Cell:
    """One point of the matrix and its runs."""

    size: MatrixSize
    shuffle: str
    streams: int
    runs: Sequence[Transfer]

    # What is said of a cell: name, unit, samples.
    def figures(self) -> list[tuple[str, str, list[float]]]:
        return [
            ("records_per_s", "1/s", [run.records_per_s for run in self.runs]),
            ("mb_per_s", "MB/s", [run.mb_per_s for run in self.runs]),
            ("cpu_s_per_gb", "s/GB", [run.cpu_s_per_gb for run in self.runs]),
            ("cpu_s_per_million_records", "s", [run.cpu_s_per_million for run in self.runs]),
        ]

    def results(self) -> list[Result]:
        return [
            summarize(
                f"matrix_{self.size.name}_{self.shuffle}_{self.streams}_{name}",
                samples,
                unit,
                record_bytes=self.size.record_bytes,
                records=self.size.records,
                epochs=self.size.epochs,
                batch_size=self.size.batch_size,
                shuffle=self.shuffle,
                streams=self.streams,
            )
            for name, unit, samples in self.figures()
        ]


def measure_matrix_size(
    programs: Programs, root: Path, size: MatrixSize, repeats: int, epochs: int
) -> list[Cell]:
    data = Data(root, programs)
    data.add_synthetic(size.name, size.records, size.record_bytes, shards=4)
    with contextlib.ExitStack() as stack:
        emlio = Emlio(programs, data, stack)
        emlio.transfer(size.name, size.batch_size, 1)
        runs = {
            (shuffle, streams): functools.partial(
                emlio.transfer, size.name, size.batch_size, epochs, shuffle, streams
            )
            for shuffle in MATRIX_SHUFFLES
            for streams in MATRIX_STREAMS
        }
        done = interleaved(
            {f"{shuffle} x {streams}": run for (shuffle, streams), run in runs.items()}, repeats
        )
    size = dataclasses.replace(size, epochs=epochs)
    return [
        Cell(size, shuffle, streams, done[f"{shuffle} x {streams}"]) for shuffle, streams in runs
    ]


def measure_matrix(programs: Programs, root: Path, repeats: int, quick: bool) -> list[Cell]:
    """Every size, shuffle and number of streams; one size is on disk at a time."""
    cells = []
    for size in MATRIX_SIZES:
        say(f"records of {size.name}")
        folder = root / size.name
        folder.mkdir()
        cells += measure_matrix_size(
            programs, folder, size, repeats, epochs=1 if quick else size.epochs
        )
        shutil.rmtree(folder)
    return cells


def matrix_markdown(cells: Sequence[Cell]) -> str:
    """A line for each size and shuffle, a column for each number of streams, a table a figure."""
    tables = []
    for name, unit, _ in cells[0].figures():
        streams = list(dict.fromkeys(cell.streams for cell in cells))
        lines = [
            f"| {name} ({unit}) | shuffle | " + " | ".join(f"{n} streams" for n in streams) + " |",
            "|---|---|" + "---:|" * len(streams),
        ]
        for size in dict.fromkeys(cell.size for cell in cells):
            for shuffle in dict.fromkeys(cell.shuffle for cell in cells):
                row = [cell for cell in cells if (cell.size, cell.shuffle) == (size, shuffle)]
                texts = []
                for cell in row:
                    samples = next(found[2] for found in cell.figures() if found[0] == name)
                    result = summarize(name, samples, unit)
                    texts.append(f"{number(result.value)} ± {number(result.sd)}")
                lines.append(f"| {size.name} | {shuffle} | " + " | ".join(texts) + " |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def stop_on_signal(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # on the way out every `with` ends its processes


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks/loopback/run",
        description="EMLIO over loopback against raw sockets, iperf3 and the paper's design.",
    )
    parser.add_argument("--quick", action="store_true", help="less data; within 50 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument(
        "--matrix",
        action="store_true",
        help="instead: every record size, shuffle and number of streams (8 minutes)",
    )
    parser.add_argument("--repeats", type=int, help="rounds, at least 5")
    parser.add_argument(
        "--build-dir",
        type=Path,
        default=REPOSITORY / "build/release",
        help="a Release build with EMLIO_BUILD_BENCHMARKS; made when it is missing",
    )
    parser.add_argument("--emlio", type=Path, help="default: the one of the build")
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="where data sets are made and removed again (4 GB); default: the temporary folder",
    )
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, stop_on_signal)
    sizes = QUICK if args.quick else FULL
    if args.repeats is not None:
        sizes = dataclasses.replace(sizes, repeats=max(5, args.repeats))
    build_dir = args.build_dir.resolve()
    programs = Programs(args.emlio or build_dir / "tools/emlio/emlio", build_dir)
    try:
        needed = [programs.emlio] if args.matrix else programs.all()
        if not all(path.exists() for path in needed):
            build(build_dir)
        if args.matrix:
            machine = environment({"emlio": first_line(programs.emlio, "--version")})
        else:
            check_requirements(programs)
            machine = environment(versions(programs))
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=args.data_dir) as root:
            if args.matrix:
                repeats = MATRIX_REPEATS if args.repeats is None else sizes.repeats
                cells = measure_matrix(programs, Path(root), repeats, args.quick)
                results = [result for cell in cells for result in cell.results()]
            else:
                results = measure(programs, Path(root), sizes)
        say(f"measured for {time.monotonic() - begin:.0f} s")
    except (BenchmarkError, OSError, subprocess.SubprocessError) as error:
        say(f"error: {error}")
        return 1
    if args.json is not None:
        write_json(args.json, machine, results)
    print(matrix_markdown(cells) if args.matrix else markdown(results, GOALS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
