# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_named_tests.py finds names of tests that are not there, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/check_named_tests.py"


def check(root: Path) -> tuple[int, list[str]]:
    run = subprocess.run(
        [sys.executable, SCRIPT, root], capture_output=True, text=True, timeout=60, check=False
    )
    assert not run.stderr
    return run.returncode, run.stdout.splitlines()


def add(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def table(**rows: str) -> str:
    """All requirements, each with a test that is there; some of them as given."""
    names = [f"E{number:02}" for number in range(1, 41)]
    lines = [f"| {name} something | done | {rows.get(name, '`WrapTest.One`')} |" for name in names]
    return "# Energy\n\n" + "\n".join(lines) + "\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose documents name what it has, in every way of naming."""
    add(
        tmp_path / "src/emlio/energy/wrap_test.cc",
        "TEST(WrapTest, One) {\n}\nTEST_F(WrapTest, Two) {\n}\n"
        "TYPED_TEST(\n    OtherTest, Three) {\n}\n// TEST(WrapTest, Gone) {\n",
    )
    add(tmp_path / "tests/e2e/test_job.py", "def test_it_runs(x):\n    pass\n")
    rows = "`WrapTest.One`, `.Two`, `OtherTest.*`, `test_job.py::test_it_runs`, `test_it_runs`"
    add(
        tmp_path / "docs/energy.md",
        table(E01=rows, E02="`tests/e2e/test_job.py`, `::test_it_runs`"),
    )
    add(tmp_path / "README.md", "See `OtherTest.Three` and `.clang-format`; `pytest test_x`.\n")
    return tmp_path


def test_names_that_are_there_are_no_findings(tree: Path) -> None:
    assert check(tree) == (0, [])


def test_this_repository_names_what_it_has() -> None:
    assert check(SCRIPT.parents[1]) == (0, [])


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        ("`WrapTest.Gone`", "WrapTest.Gone"),
        ("`WrapTest.One`, `.Gone`", "WrapTest.Gone"),
        ("`GoneTest.*`", "GoneTest.*"),
        ("`test_gone`", "test_gone"),
        ("`test_gone.py`", "test_gone.py"),
        ("`test_job.py::test_gone`", "test_job.py::test_gone"),
        ("`test_job.py`, `::test_gone`", "test_job.py::test_gone"),
    ],
)
def test_names_that_are_not_there_are_found(tree: Path, named: str, missing: str) -> None:
    add(tree / "docs/decisions/0001-x.md", f"Shown by {named}.\n")
    status, findings = check(tree)
    assert status == 1
    assert findings == [f"{tree}/docs/decisions/0001-x.md: no test {missing}"]


def test_each_requirement_has_a_row_that_names_a_test(tree: Path) -> None:
    add(tree / "docs/energy.md", table(E17="by hand").replace("| E09 something", "| E10 something"))
    status, findings = check(tree)
    assert status == 1
    assert findings == [
        f"{tree}/docs/energy.md: the rows are not E01 to E40, once each: E09",
        f"{tree}/docs/energy.md: E17 names no test",
    ]
