# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO over loopback against raw sockets, iperf3 and the paper's design in plain Python.

Run it by benchmarks/loopback/run. benchmarks/README.md says what is compared, and how.
"""

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.loopback.matrix import MATRIX_REPEATS, matrix_markdown, measure_matrix
from benchmarks.loopback.measuring import FULL, GOALS, PREFIX, QUICK, measure
from benchmarks.loopback.programs import (
    Programs,
    build,
    check_requirements,
    first_line,
    versions,
)
from benchmarks.report import (
    REPOSITORY,
    environment,
    exit_code,
    finish,
    markdown,
    say,
)


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

    sizes = QUICK if args.quick else FULL
    if args.repeats is not None:
        sizes = dataclasses.replace(sizes, repeats=max(5, args.repeats))
    build_dir = args.build_dir.resolve()
    programs = Programs(args.emlio or build_dir / "tools/emlio/emlio", build_dir)

    def run() -> None:
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
        table = matrix_markdown(cells) if args.matrix else markdown(results, GOALS)
        finish(args.json, machine, results, table)

    return exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
