# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""How benchmarks/wan reads what it measures."""

import pytest

from benchmarks.processes import BenchmarkError
from benchmarks.wan.__main__ import link_name, parse, steady_mb_per_s


def test_the_steady_rate_leaves_out_the_start_and_the_end() -> None:
    waiting = [(0.1 * i, 500) for i in range(10)]
    # A slow second, then three at 100 MB/s, then silence.
    slow = [(1 + 0.1 * i, 500 + 1_000_000 * i) for i in range(10)]
    quick = [(2 + 0.1 * i, 10_000_500 + 10_000_000 * i) for i in range(31)]
    silence = [(5.1 + 0.1 * i, 310_000_500) for i in range(20)]
    assert steady_mb_per_s([*waiting, *slow, *quick, *silence]) == pytest.approx(100)


def test_a_run_without_a_middle_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="too short"):
        steady_mb_per_s([(0.0, 0), (0.1, 1000), (0.2, 1000)])


def test_metrics_are_named_after_their_link() -> None:
    assert link_name(30.0, 5000.0) == "_30ms_5g"
    assert link_name(0.1, 0.0) == "_0.1ms"


def test_quick_is_one_link() -> None:
    options = parse(["--quick"])
    assert (options.rtt_ms, options.rate_mbit) == ([30.0], [1000.0])
