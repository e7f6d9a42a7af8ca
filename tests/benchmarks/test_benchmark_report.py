# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks say of their samples, and of goals."""

import json
import signal
from pathlib import Path

import pytest

from benchmarks.processes import BenchmarkError
from benchmarks.report import (
    Goal,
    exit_code,
    finish,
    markdown,
    number,
    summarize,
    write_json,
)


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal(at_least=1.0), 1.0, True),
        (Goal(at_least=1.0), 0.999, False),
        (Goal(at_most=2.0), 2.0, True),
        (Goal(at_most=2.0), 2.001, False),
        (Goal(at_least=1.0, at_most=2.0), 0.5, False),
        (Goal(at_least=1.0, at_most=2.0), 2.5, False),
        (Goal(at_least=1.0, at_most=2.0), 1.5, True),
    ],
)
def test_goals_include_their_bounds(goal: Goal, value: float, met: bool) -> None:
    assert goal.is_met_by(value) is met


def test_a_result_is_the_median_with_the_spread_of_its_samples() -> None:
    result = summarize("m", [1.0, 9.0, 2.0], "s", streams=4)
    assert (result.value, result.n, result.settings) == (2.0, 3, {"streams": 4})
    assert result.sd == pytest.approx(4.3589, abs=1e-4)
    assert summarize("m", [5.0], "s").sd == 0.0


def test_the_table_tells_which_goals_are_missed() -> None:
    results = [summarize(name, [value], "1") for name, value in (("a", 1234.5), ("b", 0.5))]
    lines = markdown(results, {"a": Goal(at_least=1000), "b": Goal(at_least=1)}).splitlines()
    assert lines[2:] == [
        "| `a` | 1,234 | 0 | 1 | 1 | ≥ 1,000 | yes |",
        "| `b` | 0.5 | 0 | 1 | 1 | ≥ 1 | **no** |",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01234, "0.0123"),
        (12.34, "12.3"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1234567, "1,234,567"),
    ],
)
def test_numbers_have_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert number(value) == text


def test_the_report_appears_whole(tmp_path: Path) -> None:
    write_json(tmp_path / "out.json", {"cores": 2}, [summarize("m", [1.0, 2.0], "s")])
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["environment"] == {"cores": 2}
    assert report["results"][0]["metric"] == "m"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_benchmark_ends_with_its_file_and_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [summarize("m", [1.0], "s")]
    finish(tmp_path / "out.json", {}, results, "the table")
    finish(None, {}, results, "and another")
    assert json.loads((tmp_path / "out.json").read_text())["results"][0]["value"] == 1.0
    assert capsys.readouterr().out == "the table\nand another\n"


def test_what_a_benchmark_cannot_do_it_tells(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise BenchmarkError("no iperf3")

    before = signal.getsignal(signal.SIGTERM)
    try:
        assert exit_code(lambda: None) == 0
        assert exit_code(fail) == 1
        assert capsys.readouterr().err == "error: no iperf3\n"
        with pytest.raises(SystemExit):  # every `with` block ends what it has started
            exit_code(lambda: signal.raise_signal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
