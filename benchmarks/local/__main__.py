# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO reading local shards beside DALI's TFRecord reader, tf.data and PyTorch.

Run it by benchmarks/local/run. benchmarks/README.md says what is compared, and how.
"""

import argparse
import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.processes import (
    BenchmarkError,
    JsonServer,
    command_line,
    tree_cpu_seconds,
    tree_storage_bytes,
)
from benchmarks.report import (
    REPOSITORY,
    Goal,
    Result,
    environment,
    exit_code,
    finish,
    markdown,
    say,
    summarize,
)

PREFIX = "emlio-local-"
# Options are chosen by the best of so many passes with each, taking turns.
CHOOSING_ROUNDS = 3
SHARDS = 4
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# Where a run is to read from storage, at least so much of the data has to come from there.
LEAST_COLD_SHARE = 0.8
# What takes part, and under which names it is distributed.
PACKAGES = {
    "emlio": ("emlio",),
    "dali": ("nvidia-dali-cuda120", "nvidia-dali-cuda130"),
    "tensorflow": ("tensorflow-cpu", "tensorflow"),
    "torch": ("torch",),
    "tfrecord": ("tfrecord",),
    "numpy": ("numpy",),
}


@dataclass(frozen=True)
class Contender:
    """A reader of readers.py, and the options of which the quickest are taken."""

    reader: str
    choices: Sequence[Mapping[str, Any]] = ({},)


def contenders(cores: int) -> dict[str, Contender]:
    """What each documentation advises to try. EMLIO has its defaults; `no_copy` is DALI's."""
    reads: list[dict[str, Any]] = [
        {},
        {"num_parallel_reads": cores},
        {"num_parallel_reads": SHARDS},
        {"interleave": True},
    ]
    common = {"threads": cores}
    return {
        "emlio": Contender("emlio", [{"raw": False}]),
        "emlio_raw": Contender("emlio", [{"raw": True}]),
        "emlio_dali": Contender(
            "emlio_dali", [{**common, "no_copy": no_copy} for no_copy in (True, False)]
        ),
        "emlio_torch": Contender("emlio_torch"),
        "dali_tfrecord": Contender(
            "dali_tfrecord",
            [
                {**common, **choice}
                for choice in (
                    {},
                    {"prefetch_queue_depth": 4},
                    {"readers": 2, "prefetch_queue_depth": 2},
                    {"dont_use_mmap": True, "prefetch_queue_depth": 4},
                )
            ],
        ),
        "tfdata": Contender("tfdata", [{**common, "raw": False, **choice} for choice in reads]),
        "tfdata_raw": Contender("tfdata", [{**common, "raw": True, **choice} for choice in reads]),
        "torch": Contender(
            "torch",
            [
                {"package": package, "workers": workers}
                for package in (False, True)
                for workers in (0, 1, 2)
            ],
        ),
    }


# Peer: the front end of EMLIO that gives the same.
PAIRS = {
    "dali_tfrecord": "emlio_dali",
    "tfdata": "emlio",
    "tfdata_raw": "emlio_raw",
    "torch": "emlio_torch",
}


@dataclass(frozen=True)
class DataSet:
    """Whole batches, for every number of DALI's readers, and as many for each."""

    name: str
    record_bytes: int
    records: int
    batch_size: int


@dataclass(frozen=True)
class Sizes:
    repeats: int
    passes: int
    cold: bool
    data_sets: tuple[DataSet, ...]


FULL = Sizes(
    repeats=7,
    passes=2,
    cold=True,
    data_sets=(
        DataSet("100kb", 100_000, 8_192, 64),
        DataSet("10kb", 10_000, 65_536, 256),
    ),
)
QUICK = Sizes(repeats=5, passes=3, cold=False, data_sets=(DataSet("100kb", 100_000, 2_048, 64),))


def goals() -> dict[str, Goal]:
    found = {}
    for data_set in FULL.data_sets:
        for peer in PAIRS:
            found[metric("local_over", peer, data_set)] = Goal(at_least=1.0)
            found[metric("local_cpu_over", peer, data_set)] = Goal(at_most=1.0)
    return found


def metric(prefix: str, name: str, data_set: DataSet) -> str:
    """Records of 100 KB are what is meant where no size is said."""
    return f"{prefix}_{name}" + ("" if data_set.name == "100kb" else f"_{data_set.name}")


@dataclass(frozen=True)
class Sample:
    """One measured read of the whole data set, once or several times."""

    records_per_s: float
    cpu_us_per_record: float


class Readers:
    """The readers of one data set, each in its framework's process."""

    def __init__(self, servers: Mapping[str, JsonServer], folder: Path, data_set: DataSet) -> None:
        self._servers = servers
        self._folder = folder
        self._data_set = data_set
        self._found: dict[str, Any] = {}  # by the first timed pass, the same for all that parse
        self._bytes = sum(shard.stat().st_size for shard in folder.glob("*.tfrecord"))

    def open(self, name: str, reader: str, options: Mapping[str, Any]) -> None:
        self._servers[reader].ask(
            {
                "open": name,
                "reader": reader,
                "options": {
                    "folder": str(self._folder),
                    "batch_size": self._data_set.batch_size,
                    **options,
                },
            }
        )

    def close(self, name: str, reader: str) -> None:
        self._servers[reader].ask({"close": name})

    def checksums(self, name: str, reader: str) -> dict[str, Any]:
        return self._servers[reader].ask({"read": name, "check": True})

    def warm(self, name: str, reader: str, passes: int) -> Sample:
        server = self._servers[reader]
        cpu_begin = tree_cpu_seconds(server.pid)
        found = server.ask({"read": name, "passes": passes, "check": False})
        cpu_s = tree_cpu_seconds(server.pid) - cpu_begin
        seconds = found.pop("seconds")
        self._compare(name, found)
        records = passes * self._data_set.records
        return Sample(records / seconds, cpu_s / records * 1e6)

    def cold(self, name: str, reader: str, options: Mapping[str, Any]) -> Sample:
        """From opening the reader to the last record of one pass."""
        server = self._servers[reader]
        os.sync()
        DROP_CACHES.write_text("3\n")
        cpu_begin, storage_begin = tree_cpu_seconds(server.pid), tree_storage_bytes(server.pid)
        begin = time.perf_counter()
        self.open(name, reader, options)
        found = server.ask({"read": name, "passes": 1, "check": False})
        seconds = time.perf_counter() - begin
        cpu_s = tree_cpu_seconds(server.pid) - cpu_begin
        storage_bytes = tree_storage_bytes(server.pid) - storage_begin
        self.close(name, reader)
        del found["seconds"]
        self._compare(name, found)
        if storage_bytes < LEAST_COLD_SHARE * self._bytes:
            raise BenchmarkError(
                f"{name} had storage read {storage_bytes} of {self._bytes} bytes: the shards are "
                "in memory; give a --data-dir on storage, or --no-cold"
            )
        records = self._data_set.records
        return Sample(records / seconds, cpu_s / records * 1e6)

    def _compare(self, name: str, found: Mapping[str, Any]) -> None:
        kind = "raw" if "_raw" in name else "parsed"
        if found["records"] != self._data_set.records or found != self._found.setdefault(
            kind, found
        ):
            raise BenchmarkError(
                f"{name} read {found}, not the {self._data_set.records} records of "
                f"{self._found[kind]}"
            )


def choose(
    readers: Readers, name: str, contender: Contender, records: int
) -> tuple[Mapping[str, Any], Mapping[str, float], str]:
    """The quickest options, the records per second with each, and the checksum of all records."""
    keys = [f"{name} with {options}" for options in contender.choices]
    digests: set[str] = set()
    for key, options in zip(keys, contender.choices, strict=True):
        readers.open(key, contender.reader, options)
        checked = readers.checksums(key, contender.reader)
        if checked["records"] != records or checked["distinct"] != records:
            raise BenchmarkError(f"{key} read {checked}, not {records} records")
        digests.add(checked["digest"])
    if len(digests) > 1:
        raise BenchmarkError(f"{name} read other records with some options than with others")
    rates = [0.0] * len(keys)
    for _ in range(CHOOSING_ROUNDS if len(keys) > 1 else 1):
        for i, key in enumerate(keys):
            rates[i] = max(rates[i], readers.warm(key, contender.reader, passes=1).records_per_s)
    for key in keys:
        readers.close(key, contender.reader)
    by_options = {
        ", ".join(f"{key}={value}" for key, value in options.items()): round(rate)
        for options, rate in zip(contender.choices, rates, strict=True)
    }
    return contender.choices[rates.index(max(rates))], by_options, digests.pop()


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(over, under, strict=True)]


def summaries(
    prefix: str,
    data_set: DataSet,
    samples: Mapping[str, Sequence[Sample]],
    settings: Mapping[str, Mapping[str, Any]],
) -> list[Result]:
    """Ratios within each round, and each reader alone."""
    rate = {name: [sample.records_per_s for sample in runs] for name, runs in samples.items()}
    cpu = {name: [sample.cpu_us_per_record for sample in runs] for name, runs in samples.items()}
    common = {
        "record_bytes": data_set.record_bytes,
        "records": data_set.records,
        "batch_size": data_set.batch_size,
        "shards": SHARDS,
        "shuffle": "none",
    }
    results = []
    for peer, ours in PAIRS.items():
        pair = {**common, ours: settings[ours], peer: settings[peer]}
        results += [
            summarize(
                metric(f"{prefix}_over", peer, data_set),
                ratios(rate[ours], rate[peer]),
                "1",
                **pair,
            ),
            summarize(
                metric(f"{prefix}_cpu_over", peer, data_set),
                ratios(cpu[ours], cpu[peer]),
                "1",
                **pair,
            ),
        ]
    for name in samples:
        alone = {**common, **settings[name]}
        results += [
            summarize(
                metric(prefix, name, data_set) + "_records_per_s", rate[name], "1/s", **alone
            ),
            summarize(
                metric(prefix, name, data_set) + "_cpu_us_per_record", cpu[name], "us", **alone
            ),
        ]
    return results


def measure_data_set(
    servers: Mapping[str, JsonServer], folder: Path, data_set: DataSet, sizes: Sizes
) -> list[Result]:
    who = contenders(os.cpu_count() or 1)
    readers = Readers(servers, folder, data_set)
    chosen: dict[str, Mapping[str, Any]] = {}
    settings: dict[str, Mapping[str, Any]] = {}
    digests: dict[str, str] = {}
    for name, contender in who.items():
        chosen[name], rates, digest = choose(readers, name, contender, data_set.records)
        settings[name] = {"options": chosen[name], "records_per_s_by_options": rates}
        same = digests.setdefault("raw" if name.endswith("_raw") else "parsed", digest)
        if digest != same:
            raise BenchmarkError(f"{name} read other records than {next(iter(who))}")
        say(f"  {name}: {max(rates.values()):,.0f} records/s with {chosen[name]}")

    for name, contender in who.items():
        readers.open(name, contender.reader, chosen[name])
        readers.warm(name, contender.reader, passes=1)
    warm: dict[str, list[Sample]] = {name: [] for name in who}
    for i in range(sizes.repeats):
        for name in who if i % 2 == 0 else reversed(list(who)):
            warm[name].append(readers.warm(name, who[name].reader, sizes.passes))
        tell_round(f"warm round {i + 1} of {sizes.repeats}", warm)
    for name, contender in who.items():
        readers.close(name, contender.reader)
    results = summaries("local", data_set, warm, settings)

    if sizes.cold:
        cold: dict[str, list[Sample]] = {name: [] for name in who}
        for i in range(sizes.repeats):
            for name in who if i % 2 == 0 else reversed(list(who)):
                cold[name].append(readers.cold(name, who[name].reader, chosen[name]))
            tell_round(f"cold round {i + 1} of {sizes.repeats}", cold)
        results += summaries("local_cold", data_set, cold, settings)
    return results


def tell_round(title: str, samples: Mapping[str, Sequence[Sample]]) -> None:
    rates = (f"{name} {runs[-1].records_per_s:,.0f}/s" for name, runs in samples.items())
    say(f"  {title}: {', '.join(rates)}")


def make_data(emlio: Path, folder: Path, data_set: DataSet, env: Mapping[str, str]) -> None:
    for command in (
        command_line(
            *(emlio, "convert", "synthetic", folder, "--records", data_set.records),
            *("--record-bytes", data_set.record_bytes, "--shards", SHARDS, "--example"),
        ),
        command_line(emlio, "index", "--dali-idx", folder),
    ):
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, timeout=300, env={**os.environ, **env}
        )


def measure(emlio: Path, root: Path, sizes: Sizes) -> list[Result]:
    env = {
        "XDG_CACHE_HOME": str(root / "cache"),  # where EMLIO keeps its indexes
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }
    results = []
    with contextlib.ExitStack() as stack:
        servers = {}
        for reader in sorted({contender.reader for contender in contenders(1).values()}):
            servers[reader] = stack.enter_context(
                JsonServer(
                    [sys.executable, "-m", "benchmarks.local.serve"],
                    root / f"{reader}.log",
                    env={**os.environ, **env},
                )
            )
        for data_set in sizes.data_sets:
            say(f"{data_set.records:,} records of {data_set.name} in {root}")
            folder = root / data_set.name
            make_data(emlio, folder, data_set, env)
            results += measure_data_set(servers, folder, data_set, sizes)
            for shard in folder.iterdir():
                shard.unlink()
    return results


def versions() -> dict[str, str]:
    """Of everything that takes part; what is missing is an error."""
    found = {}
    for name, packages in PACKAGES.items():
        for package in packages:
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[name] = metadata.version(package)
        if name not in found:
            raise BenchmarkError(f"{sys.executable} has no {packages[0]}: run scripts/setup --dev")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks/local/run",
        description="EMLIO reading local shards beside DALI, tf.data and PyTorch.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="records of 100 KB in memory only; within 55 s"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--repeats", type=int, help="rounds, at least 5")
    parser.add_argument(
        "--no-cold", action="store_true", help="only what is in memory; so without root"
    )
    parser.add_argument(
        "--emlio", type=Path, default=Path(sys.executable).with_name("emlio"), help="the executable"
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="where data sets are made and removed again (1 GB); default: the temporary folder",
    )
    args = parser.parse_args()

    sizes = QUICK if args.quick else FULL
    if args.repeats is not None:
        sizes = dataclasses.replace(sizes, repeats=max(5, args.repeats))
    if sizes.cold and (args.no_cold or not os.access(DROP_CACHES, os.W_OK)):
        say(f"not measured: what is not in memory (needs root, to write {DROP_CACHES})")
        sizes = dataclasses.replace(sizes, cold=False)

    def run() -> None:
        machine = environment(versions())
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=args.data_dir) as root:
            results = measure(args.emlio, Path(root), sizes)
        say(f"measured for {time.monotonic() - begin:.0f} s")
        finish(args.json, machine, results, markdown(results, goals()))

    return exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
