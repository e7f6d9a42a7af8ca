# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What is measured: sizes, rounds, figures."""

import contextlib
import functools
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loopback.programs import (
    BATCH_100KB,
    SPARSE_RECORD_BYTES,
    STREAMS,
    Data,
    Emlio,
    Iperf3,
    Programs,
    Transfer,
    paper_python,
    plain_tcp,
    raw_tcp,
)
from benchmarks.processes import (
    BenchmarkError,
    Sampler,
    anonymous_bytes,
    command_line,
    run_json,
)
from benchmarks.report import Goal, Result, say, summarize

HERE = Path(__file__).parent
PREFIX = "emlio-loopback-"
SHARED_MEMORY = Path("/dev/shm")
BATCH_1KB = 4096
BATCH_100B_ONE_STREAM = 1024
BATCH_EXAMPLE = 64
MEMORY_EVERY_S = 0.005
PREFETCH_MIB = 256  # the default of emlio pull and of emlio serve --send-buffer-mb
ALLOWED_BESIDE_CREDIT_MIB = 64
PAPER_THREADS = (1, 2, 4)
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
