# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO reading from storage, nothing in the page cache, against fio on the same files.

Run it by benchmarks/cold/run, as root. benchmarks/README.md says what is compared, and how.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.processes import Background, BenchmarkError, command_line, require
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
from benchmarks.storage import (
    Limit,
    check_requirements,
    describe_storage,
    drop_caches,
    entering,
    fio_read,
    fio_version,
    memory_limits,
    read_rate_limits,
)

PREFIX = "emlio-cold-"
RECORD_BYTES = 100_000
BATCH = 256
SHARDS = 4
RANKS = 4
LIMIT_MIB = 256
PARTS = ("free", "throttled", "limited")

GOALS = {
    "cold_over_fio_sequential": Goal(at_least=0.9),
    "cold_over_fio_random_100kb": Goal(at_least=0.8),
    "block_over_none_cold": Goal(at_least=0.9),
    "throttled_none_over_limit": Goal(at_least=0.9),
    "throttled_full_over_limit": Goal(at_least=0.8),
    "limited_over_unlimited_none": Goal(at_least=0.5),
    "limited_over_unlimited_full": Goal(at_least=0.5),
}


def fio_mb_per_s(files: list[Path], random: bool, limits: Sequence[Limit] = ()) -> float:
    """Asynchronous reads past the page cache, 16 at a time: what the storage gives."""
    total = sum(file.stat().st_size for file in files)
    block = RECORD_BYTES // 4096 * 4096 if random else 1 << 20
    with entering(limits) as within:
        read = fio_read(
            files,
            *("--ioengine=libaio", "--iodepth=16", f"--bs={block}", f"--io_size={total}"),
            f"--rw={'randread' if random else 'read'}",
            within=within,
        )
    return float(read["io_bytes"] / read["runtime"] / 1e3)


def emlio_mb_per_s(
    emlio: Path, data: Path, shuffle: str, ranks: int = 1, limits: Sequence[Limit] = ()
) -> float:
    """One epoch through daemon and receivers, all ranks at once; the limits are the daemon's."""
    with (
        entering(limits) as within,
        tempfile.TemporaryDirectory(prefix=PREFIX) as scratch,
    ):
        ready = Path(scratch) / "ready"
        serve = command_line(
            *(emlio, "serve", f"data={data}", "--bind", "127.0.0.1:0", "--ready-file", ready)
        )
        drop_caches()
        with Background([*within, *serve], Path(scratch) / "log") as daemon:
            source = daemon.wait_until_ready(ready) + "/data"
            begin = time.monotonic()
            pulls = [
                subprocess.Popen(
                    command_line(
                        *(emlio, "pull", source, "--global-batch-size", BATCH * ranks),
                        *("--shuffle", shuffle, "--rank", rank, "--world-size", ranks),
                        *("--check-once", "--json", Path(scratch) / f"{rank}.json"),
                    ),
                    stdout=subprocess.DEVNULL,
                )
                for rank in range(ranks)
            ]
            codes = [pull.wait(300) for pull in pulls]
            seconds = time.monotonic() - begin
        if any(codes):
            raise BenchmarkError(f"emlio pull ended with {codes}")
    return sum(file.stat().st_size for file in data.glob("*.tfrecord")) / seconds / 1e6


def measure(
    emlio: Path,
    root: Path,
    records: int,
    repeats: int,
    parts: Sequence[str],
    throttle_mb_per_s: int,
) -> list[Result]:
    say(f"making {records * RECORD_BYTES / 1e9:.1f} GB in {root}")
    data = root / "data"
    subprocess.run(
        command_line(
            *(emlio, "convert", "synthetic", data, "--records", records),
            *("--record-bytes", RECORD_BYTES, "--shards", SHARDS),
        ),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(command_line(emlio, "index", data), check=True, stdout=subprocess.DEVNULL)
    files = sorted(data.glob("*.tfrecord"))
    samples: dict[str, list[float]] = {}

    def add(name: str, value: float) -> float:
        samples.setdefault(name, []).append(value)
        return value

    def one_round() -> None:
        if "free" in parts:
            sequential = add("fio_sequential_mb_per_s", fio_mb_per_s(files, random=False))
            none = add("cold_none_mb_per_s", emlio_mb_per_s(emlio, data, "none"))
            block = add("cold_block_mb_per_s", emlio_mb_per_s(emlio, data, "block"))
            random = add("fio_random_100kb_mb_per_s", fio_mb_per_s(files, random=True))
            full = add("cold_full_mb_per_s", emlio_mb_per_s(emlio, data, "full"))
            add("cold_over_fio_sequential", none / sequential)
            add("cold_over_fio_random_100kb", full / random)
            add("block_over_none_cold", block / none)
        if "throttled" in parts:
            slow = read_rate_limits(data, throttle_mb_per_s * 1_000_000)
            for shuffle, kind in (("none", "sequential"), ("full", "random_100kb")):
                fio = fio_mb_per_s(files, kind != "sequential", slow)
                ours = emlio_mb_per_s(emlio, data, shuffle, limits=slow)
                add(f"throttled_fio_{kind}_mb_per_s", fio)
                add(f"throttled_{shuffle}_mb_per_s", ours)
                add(f"throttled_over_fio_{kind}", ours / fio)
                add(f"throttled_{shuffle}_over_limit", ours / throttle_mb_per_s)
        if "limited" in parts:
            for shuffle in ("none", "full"):
                rates = [
                    emlio_mb_per_s(emlio, data, shuffle, RANKS, limits)
                    for limits in ([], memory_limits(LIMIT_MIB))
                ]
                add(f"limited_over_unlimited_{shuffle}", rates[1] / rates[0])

    for number in range(repeats):
        say(f"round {number + 1} of {repeats}")
        one_round()
    settings = {"record_bytes": RECORD_BYTES, "records": records, "batch": BATCH}
    if "throttled" in parts:
        settings["throttle_mb_per_s"] = throttle_mb_per_s
    return [
        summarize(name, values, "MB/s" if name.endswith("mb_per_s") else "ratio", **settings)
        for name, values in samples.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks/cold/run",
        description="EMLIO reading from storage against fio on the same files; needs root.",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--quick", action="store_true", help="300 MB, one round")
    parser.add_argument("--repeats", type=int, default=5, help="rounds")
    parser.add_argument("--records", type=int, default=20_000, help="of 100 KB")
    parser.add_argument(
        *("--parts", "-p"),
        nargs="+",
        choices=PARTS,
        default=PARTS,
        help="free: as quick as the storage is; throttled: slowed down for fio and the daemon by "
        "a control group; limited: the daemon with little memory",
    )
    parser.add_argument(
        "--throttle-mb-per-s", type=int, default=100, help="how quick the throttled storage is"
    )
    parser.add_argument(
        "--emlio", type=Path, default=REPOSITORY / "build/release/tools/emlio/emlio"
    )
    parser.add_argument(
        "--data-dir", type=Path, help="on the storage to measure; default: the temporary folder"
    )
    args = parser.parse_args()
    if args.quick:
        args.repeats, args.records = 1, 3_000

    def run() -> None:
        check_requirements()
        require(args.emlio)
        machine = environment({"fio": fio_version()})
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=args.data_dir) as root:
            machine["storage"] = describe_storage(Path(root))
            results = measure(
                args.emlio,
                Path(root),
                args.records,
                args.repeats,
                args.parts,
                args.throttle_mb_per_s,
            )
        finish(args.json, machine, results, markdown(results, GOALS))

    return exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
