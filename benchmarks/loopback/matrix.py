# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Every record size, shuffle and number of streams."""

import contextlib
import dataclasses
import functools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.loopback.measuring import interleaved
from benchmarks.loopback.programs import Data, Emlio, Programs, Transfer
from benchmarks.report import Result, number, say, summarize


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
