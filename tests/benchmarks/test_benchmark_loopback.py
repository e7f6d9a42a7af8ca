# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/loopback says of a run, and how the matrix is laid out."""

import pytest

from benchmarks.loopback.matrix import (
    MATRIX_SHUFFLES,
    MATRIX_SIZES,
    MATRIX_STREAMS,
    Cell,
    matrix_markdown,
)
from benchmarks.loopback.programs import Transfer

RUN = Transfer(payload_bytes=4e9, seconds=2.0, cpu_s=3.0, records=8_000_000)


def test_a_run_is_said_by_rate_and_by_cost() -> None:
    assert RUN.mb_per_s == 2000
    assert RUN.records_per_s == 4_000_000
    assert RUN.cpu_s_per_gb == 0.75
    assert RUN.cpu_s_per_million == pytest.approx(0.375)


def test_no_size_of_the_matrix_takes_more_than_its_share_of_the_disk() -> None:
    assert [size.record_bytes for size in MATRIX_SIZES] == [100, 1_000, 10_000, 100_000, 2_000_000]
    for size in MATRIX_SIZES:
        assert size.records * (size.record_bytes + 16) <= 600_000_000


def test_the_matrix_has_a_table_for_each_figure_and_a_column_for_each_number_of_streams() -> None:
    cells = [
        Cell(size, shuffle, streams, [RUN])
        for size in MATRIX_SIZES
        for shuffle in MATRIX_SHUFFLES
        for streams in MATRIX_STREAMS
    ]
    tables = matrix_markdown(cells).split("\n\n")
    assert len(tables) == 4
    for table in tables:
        lines = table.splitlines()
        assert len(lines) == 2 + len(MATRIX_SIZES) * len(MATRIX_SHUFFLES)
        assert {line.count("|") for line in lines} == {3 + len(MATRIX_STREAMS)}
    assert tables[0].splitlines()[2].startswith("| 100b | none | 4,000,000 ± 0 |")
    metrics = {result.metric for cell in cells for result in cell.results()}
    assert len(metrics) == 4 * len(cells)
    assert "matrix_2mb_full_8_cpu_s_per_gb" in metrics
