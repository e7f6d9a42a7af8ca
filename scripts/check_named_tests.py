# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the tests which documents name exist, and that every energy requirement names one.

usage: check_named_tests.py [ROOT]. Prints one line per finding; the exit status tells if there was
any. Names are read in backticks: `SomeTest.Name`, `SomeTest.*`, `.Name` (of the suite named last in
the same paragraph or row), `test_file.py`, `test_file.py::test_name`, `::test_name`, `test_name`.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDERS = ("src", "tools", "python", "tests", "benchmarks")
DOCUMENTS = ("*.md", "docs/**/*.md", "src/**/*.md", "benchmarks/**/*.md")
REQUIREMENTS = "docs/energy.md"
REQUIREMENT_IDS = [f"E{number:02}" for number in range(1, 41)]

CPP_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
PYTHON_TEST = re.compile(r"^(?:    |async )?def (test_\w+)\(", re.MULTILINE)
IN_BACKTICKS = re.compile(r"`([^`\s]+)`")
CPP_NAME = re.compile(r"(\w+Test)?\.(\*|[A-Z]\w+)")
PYTHON_NAME = re.compile(r"(?:[\w/]*?(test_\w+)\.py)?(?:(?:^|::)(test_\w+))?")


@dataclass
class Tests:
    """All tests that the sources have."""

    cpp: dict[str, set[str]] = field(default_factory=dict)  # by suite
    python: dict[str, set[str]] = field(default_factory=dict)  # by file, without .py

    @property
    def python_names(self) -> set[str]:
        return set().union(*self.python.values())


def tests_in(root: Path) -> Tests:
    tests = Tests()
    for folder in FOLDERS:
        for path in (root / folder).rglob("*_test.cc"):
            for suite, name in CPP_TEST.findall(path.read_text()):
                tests.cpp.setdefault(suite, set()).add(name)
        for path in (root / folder).rglob("test_*.py"):
            names = PYTHON_TEST.findall(path.read_text())
            tests.python.setdefault(path.stem, set()).update(names)
    return tests


def named_tests(text: str) -> Iterator[tuple[str, str, str]]:
    """What a row or paragraph names: ("cpp", suite, name) and ("python", file, name)."""
    suite = file = ""
    for word in IN_BACKTICKS.findall(text):
        if match := CPP_NAME.fullmatch(word):
            suite = match[1] or suite
            if suite:
                yield "cpp", suite, match[2]
        elif word.startswith(("test_", "::test_")) or "/test_" in word:
            match = PYTHON_NAME.fullmatch(word)
            if match and (match[1] or match[2]):
                # `test_name` alone may be in any file, `::test_name` is in the one before it.
                file = match[1] or (file if word.startswith("::") else "")
                yield "python", file, match[2] or ""


def is_there(tests: Tests, language: str, place: str, name: str) -> bool:
    if language == "cpp":
        return place in tests.cpp and (name == "*" or name in tests.cpp[place])
    if not place:
        return name in tests.python_names
    return place in tests.python and (not name or name in tests.python[place])


def spelled(language: str, place: str, name: str) -> str:
    if language == "cpp":
        return f"{place}.{name}"
    return "::".join(part for part in (place and f"{place}.py", name) if part)


def check_document(path: Path, tests: Tests) -> Iterator[str]:
    """A table's rows are looked at one by one, other text paragraph by paragraph."""
    for part in re.split(r"\n\n|\n(?=\|)", path.read_text()):
        for found in named_tests(part):
            if not is_there(tests, *found):
                yield f"{path}: no test {spelled(*found)}"


def check_requirements(path: Path) -> Iterator[str]:
    """Each requirement has one row, in order, that names a test."""
    rows = re.findall(r"^\| (E\d\d)\b(.*)$", path.read_text(), re.MULTILINE)
    ids = [number for number, _ in rows]
    if ids != REQUIREMENT_IDS:
        wrong = sorted(set(REQUIREMENT_IDS) ^ set(ids)) or ["their order"]
        yield f"{path}: the rows are not E01 to E40, once each: {', '.join(wrong)}"
    for number, text in rows:
        if not any(named_tests(text)):
            yield f"{path}: {number} names no test"


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    tests = tests_in(root)
    findings = []
    for pattern in DOCUMENTS:
        for path in sorted(root.glob(pattern)):
            findings += check_document(path, tests)
    findings += check_requirements(root / REQUIREMENTS)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
