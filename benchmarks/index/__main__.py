# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Indexing shards that nobody has read yet, against random reads of fio on the same files.

Run it by benchmarks/index/run, as root. benchmarks/README.md says what is compared, and how.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.processes import command_line, require, run_json
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
    check_requirements,
    describe_storage,
    drop_caches,
    fio_read,
    fio_version,
)

PREFIX = "emlio-index-"
RECORD_BYTES = 100_000
SHARDS = 8
READ_BYTES = 4096  # a header and the checksum in front of it lie in one page, or two
SPARSE_RECORDS = 1_000_000  # 100 GB

GOALS = {"index_over_fio_random_4kb": Goal(at_least=1.0)}


def index_seconds(emlio: Path, data: Path, jobs: int, scratch: Path) -> float:
    """Builds all indexes anew, nothing in the page cache."""
    drop_caches()
    report = run_json(
        command_line(
            *(emlio, "index", data, "--rebuild", "--index-dir", scratch / "indexes"),
            *("--jobs", jobs, "--json", "-"),
        ),
        timeout_s=600,
    )
    return float(report["seconds"])


def fio_reads_per_s(files: list[Path], jobs: int, reads: int) -> float:
    """As many threads, each waiting for one read of a page at a time."""
    read = fio_read(
        files,
        "--ioengine=psync",
        "--thread",
        f"--numjobs={jobs}",
        f"--bs={READ_BYTES}",
        "--rw=randread",
        f"--io_size={reads // jobs * READ_BYTES}",
    )
    return float(read["iops"])


def make_data(emlio: Path, data: Path, records: int) -> None:
    say(f"making {records * RECORD_BYTES / 1e9:.1f} GB in {data}")
    subprocess.run(
        command_line(
            *(emlio, "convert", "synthetic", data, "--records", records),
            *("--record-bytes", RECORD_BYTES, "--shards", SHARDS),
        ),
        check=True,
        stdout=subprocess.DEVNULL,
    )


def make_sparse_data(program: Path, data: Path) -> None:
    say(f"making {SPARSE_RECORDS * RECORD_BYTES / 1e9:.0f} GB with holes in {data}")
    subprocess.run(
        command_line(
            *(program, data, "--shards", SHARDS, "--records", SPARSE_RECORDS),
            *("--record-bytes", RECORD_BYTES),
        ),
        check=True,
    )


def measure(args: argparse.Namespace, root: Path) -> list[Result]:
    data = args.data or root / "data"
    if args.data is None:
        make_data(args.emlio, data, args.records)
    files = sorted(data.glob("*.tfrecord"))
    inspected = run_json(command_line(args.emlio, "index", data, "--json", "-"), timeout_s=600)
    records = int(inspected["records"])
    jobs = min(args.jobs, len(files))
    settings = {"records": records, "shards": len(files), "jobs": jobs}
    samples: dict[str, list[float]] = {}
    for number in range(args.repeats):
        say(f"round {number + 1} of {args.repeats}")
        ours = records / index_seconds(args.emlio, data, jobs, root)
        theirs = fio_reads_per_s(files, jobs, min(records, args.fio_reads))
        samples.setdefault("index_records_per_s", []).append(ours)
        samples.setdefault("fio_random_4kb_reads_per_s", []).append(theirs)
        samples.setdefault("index_over_fio_random_4kb", []).append(ours / theirs)
    results = [
        summarize(name, values, "1" if "over" in name else "1/s", **settings)
        for name, values in samples.items()
    ]
    if args.sparse:
        sparse = root / "sparse"
        make_sparse_data(args.sparse_shards, sparse)
        seconds = [
            index_seconds(args.emlio, sparse, jobs, root) for _ in range(min(3, args.repeats))
        ]
        results.append(
            summarize(
                *("index_100gb_sparse_s", seconds, "s"),
                **{**settings, "records": SPARSE_RECORDS, "shards": SHARDS},
            )
        )
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks/index/run",
        description="emlio index against fio's random reads on the same files; needs root.",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--quick", action="store_true", help="1 GB, 3 rounds, no sparse files")
    parser.add_argument("--repeats", type=int, default=5, help="rounds")
    parser.add_argument("--records", type=int, default=100_000, help="of 100 KB")
    parser.add_argument("--fio-reads", type=int, default=50_000, help="how many reads, at most")
    parser.add_argument(
        *("--jobs", "-j"), type=int, default=os.cpu_count(), help="threads, of both programs"
    )
    parser.add_argument("--data", type=Path, help="a folder of shards that is there already")
    parser.add_argument(
        "--no-sparse",
        dest="sparse",
        action="store_false",
        help="leave out the 100 GB of sparse files, which take 4 GB",
    )
    release = REPOSITORY / "build/release"
    parser.add_argument("--emlio", type=Path, default=release / "tools/emlio/emlio")
    parser.add_argument(
        "--sparse-shards", type=Path, default=release / "benchmarks/loopback/sparse_shards"
    )
    parser.add_argument(
        "--data-dir", type=Path, help="on the storage to measure; default: the temporary folder"
    )
    args = parser.parse_args()
    if args.quick:
        args.repeats, args.records, args.sparse = 3, 10_000, False

    def run() -> None:
        check_requirements()
        require(args.emlio, *([args.sparse_shards] if args.sparse else []))
        machine = environment({"fio": fio_version()})
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=args.data_dir) as root:
            machine["storage"] = describe_storage(args.data or Path(root))
            results = measure(args, Path(root))
            # Before the files are removed: where freed blocks are discarded, a million of them
            # take minutes.
            finish(args.json, machine, results, markdown(results, GOALS))

    return exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
