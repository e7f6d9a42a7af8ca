# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO reading from storage, nothing in the page cache, against fio on the same files.

Run it by benchmarks/cold/run, as root. benchmarks/README.md says what is compared, and how.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.processes import Background, BenchmarkError, command_line, run_json
from benchmarks.report import (
    REPOSITORY,
    Goal,
    Result,
    environment,
    markdown,
    summarize,
    write_json,
)

PREFIX = "emlio-cold-"
RECORD_BYTES = 100_000
BATCH = 256
SHARDS = 4
RANKS = 4
LIMIT_MIB = 256
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
MEMORY_GROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))

GOALS = {
    "cold_over_fio_sequential": Goal(at_least=0.9),
    "cold_over_fio_random_100kb": Goal(at_least=0.8),
    "block_over_none_cold": Goal(at_least=0.9),
    "limited_over_unlimited_none": Goal(at_least=0.5),
    "limited_over_unlimited_full": Goal(at_least=0.5),
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def drop_caches() -> None:
    os.sync()
    DROP_CACHES.write_text("3\n")


def fio_mb_per_s(files: list[Path], random: bool) -> float:
    """Asynchronous reads past the page cache, 16 at a time: what the storage gives."""
    drop_caches()
    total = sum(file.stat().st_size for file in files)
    block = RECORD_BYTES // 4096 * 4096 if random else 1 << 20
    report = run_json(
        command_line(
            "fio",
            "--name=read",
            "--filename=" + ":".join(map(str, files)),
            "--readonly",
            "--direct=1",
            "--ioengine=libaio",
            "--iodepth=16",
            f"--bs={block}",
            f"--rw={'randread' if random else 'read'}",
            f"--io_size={total}",
            "--output-format=json",
        )
    )
    read = report["jobs"][0]["read"]
    return float(read["io_bytes"] / read["runtime"] / 1e3)


@contextlib.contextmanager
def memory_limit(mib: int | None) -> Iterator[Path | None]:
    """A control group of its own with that limit; gives the file that takes process ids."""
    if mib is None:
        yield None
        return
    for root in MEMORY_GROUPS:
        group = root / f"emlio-cold-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            limit = group / "memory.limit_in_bytes"
            if not limit.exists():
                limit = group / "memory.max"
            limit.write_text(str(mib << 20))
            yield group / "cgroup.procs"
            return
        finally:
            deadline = time.monotonic() + 10
            while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
            group.rmdir()
    raise BenchmarkError("no control group for memory can be made here")


def emlio_mb_per_s(
    emlio: Path, data: Path, shuffle: str, ranks: int = 1, limit_mib: int | None = None
) -> float:
    """One epoch through daemon and receivers, all ranks at once."""
    with (
        memory_limit(limit_mib) as processes,
        tempfile.TemporaryDirectory(prefix=PREFIX) as scratch,
    ):
        ready = Path(scratch) / "ready"
        serve = command_line(
            *(emlio, "serve", f"data={data}", "--bind", "127.0.0.1:0", "--ready-file", ready)
        )
        if processes is not None:
            enter = f'echo $$ > "{processes}" && exec "$@"'
            serve = ["bash", "-c", enter, "bash", *serve]
        drop_caches()
        with Background(serve, Path(scratch) / "log") as daemon:
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


def measure(emlio: Path, root: Path, records: int, repeats: int) -> list[Result]:
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

    for number in range(repeats):
        say(f"round {number + 1} of {repeats}")
        sequential = add("fio_sequential_mb_per_s", fio_mb_per_s(files, random=False))
        none = add("cold_none_mb_per_s", emlio_mb_per_s(emlio, data, "none"))
        block = add("cold_block_mb_per_s", emlio_mb_per_s(emlio, data, "block"))
        random = add("fio_random_100kb_mb_per_s", fio_mb_per_s(files, random=True))
        full = add("cold_full_mb_per_s", emlio_mb_per_s(emlio, data, "full"))
        add("cold_over_fio_sequential", none / sequential)
        add("cold_over_fio_random_100kb", full / random)
        add("block_over_none_cold", block / none)
        for shuffle in ("none", "full"):
            rates = [
                emlio_mb_per_s(emlio, data, shuffle, RANKS, limit) for limit in (None, LIMIT_MIB)
            ]
            add(f"limited_over_unlimited_{shuffle}", rates[1] / rates[0])
    settings = {"record_bytes": RECORD_BYTES, "records": records, "batch": BATCH}
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
    parser.add_argument("--repeats", type=int, default=5, help="rounds")
    parser.add_argument("--records", type=int, default=20_000, help="of 100 KB")
    parser.add_argument(
        "--emlio", type=Path, default=REPOSITORY / "build/release/tools/emlio/emlio"
    )
    parser.add_argument(
        "--data-dir", type=Path, help="on the storage to measure; default: the temporary folder"
    )
    args = parser.parse_args()
    try:
        if shutil.which("fio") is None:
            raise BenchmarkError("fio is missing: apt-get install fio")
        if not os.access(DROP_CACHES, os.W_OK):
            raise BenchmarkError(f"{DROP_CACHES} cannot be written: run this as root")
        if not args.emlio.exists():
            raise BenchmarkError(f"{args.emlio} is missing: cmake --workflow --preset release")
        version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True)
        machine = environment({"fio": version.stdout.strip()})
        device = re.sub(
            r"\s+", " ", subprocess.getoutput(f"df -T {args.data_dir or '/tmp'} | tail -1")
        )
        machine["storage"] = device
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=args.data_dir) as root:
            results = measure(args.emlio, Path(root), args.records, args.repeats)
    except (BenchmarkError, OSError, subprocess.SubprocessError) as error:
        say(f"error: {error}")
        return 1
    if args.json is not None:
        write_json(args.json, machine, results)
    print(markdown(results, GOALS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
