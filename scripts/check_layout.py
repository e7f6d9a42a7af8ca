# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what the compiler does not: include directions, file headers, that every source is built.

usage: check_layout.py [ROOT]. Prints one line per finding; the exit status tells if there was any.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Which modules each module of src/emlio builds on (docs/architecture.md). What those build on is
# allowed as well; anything else would be an include that points up or sideways.
BUILDS_ON = {
    "base": (),
    "tfrecord": ("base",),
    "example": ("base",),
    "plan": ("base",),
    "wire": ("base",),
    "transport": ("base",),
    "energy": ("base",),
    "energy_sinks": ("energy",),
    "energy_analysis": ("energy",),
    "energy_agent": ("energy", "transport"),
    "dataset": ("tfrecord",),
    "session": ("plan", "wire"),
    "daemon": ("dataset", "session", "transport"),
    "loader": ("example", "session", "transport", "daemon"),
    "convert": ("tfrecord", "example"),
}
CPP_SPDX = (
    "// SPDX-FileCopyrightText: 2026 The EMLIO Authors\n// SPDX-License-Identifier: Apache-2.0\n"
)
SPDX_LICENSE = "SPDX-License-Identifier: Apache-2.0"
CPP_FOLDERS = ("src/emlio", "tools", "python/bindings", "tests", "benchmarks")


def reachable(module: str) -> set[str]:
    """The modules whose headers `module` may include, itself among them."""
    allowed = {module}
    for lower in BUILDS_ON[module]:
        allowed |= reachable(lower)
    return allowed


def check_module(folder: Path) -> Iterator[str]:
    """Include directions of one folder of src/emlio, and the same of what its target links."""
    module = folder.name
    if module not in BUILDS_ON:
        yield f"{folder}: no such module in the table of scripts/check_layout.py"
        return
    allowed = reachable(module)
    patterns = {"*.h": r'#include "emlio/(\w+)/', "*.cc": r'#include "emlio/(\w+)/'}
    patterns["CMakeLists.txt"] = r"\bemlio::(\w+)"
    for pattern, uses in patterns.items():
        for path in sorted(folder.rglob(pattern)):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for used in re.findall(uses, line):
                    if used not in allowed:
                        yield f"{path}:{number}: {module} must not use {used}"


def check_cpp_file(path: Path, cmake: str) -> Iterator[str]:
    """Header lines of one C++ file, and that a target builds it."""
    text = path.read_text()
    if not text.startswith(CPP_SPDX):
        yield f"{path}: does not begin with the two SPDX lines"
    if path.suffix == ".h" and "#pragma once\n" not in text:
        yield f"{path}: no #pragma once"
    if path.suffix == ".cc" and not re.search(rf"(?<![\w/]){re.escape(path.name)}\b", cmake):
        yield f"{path}: in no CMakeLists.txt of its folder, so it is never built"


def nearest_cmake(path: Path, root: Path) -> str:
    """The CMakeLists.txt that is responsible for a file: the first one upwards."""
    for folder in path.parents:
        if (folder / "CMakeLists.txt").exists():
            text = (folder / "CMakeLists.txt").read_text()
            relative = str(path.relative_to(folder).parent)
            return text if relative == "." else text.replace(f"{relative}/", "")
        if folder == root:
            break
    return ""


def findings(root: Path) -> Iterator[str]:
    """All findings in a tree."""
    for folder in sorted((root / "src/emlio").iterdir()):
        if folder.is_dir() and any(folder.iterdir()):
            yield from check_module(folder)
    for top in CPP_FOLDERS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield from check_cpp_file(path, nearest_cmake(path, root))
    others = [*root.glob("scripts/*"), *root.glob(".ci/*"), *root.glob("cmake/*.cmake")]
    others += root.glob("benchmarks/*/run")
    for top in ("python", "tests", "benchmarks"):
        others += root.glob(f"{top}/**/*.py")
    for path in sorted(others):
        if not path.is_file() or path.suffix not in ("", ".sh", ".py", ".cmake"):
            continue
        text = path.read_text()
        if text and SPDX_LICENSE not in "\n".join(text.splitlines()[:4]):
            yield f"{path}: no line {SPDX_LICENSE} at its top"


def main() -> int:
    """Prints the findings; 1 when there are any."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = list(findings(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
