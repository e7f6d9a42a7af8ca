# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_layout.py finds each kind of violation, and nothing in a clean tree."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/check_layout.py"
SPDX = "// SPDX-FileCopyrightText: 2026 The EMLIO Authors\n// SPDX-License-Identifier: Apache-2.0\n"


def check(root: Path) -> tuple[int, list[str]]:
    run = subprocess.run(
        [sys.executable, SCRIPT, root], capture_output=True, text=True, timeout=60, check=False
    )
    assert not run.stderr
    return run.returncode, run.stdout.splitlines()


def add(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clean tree: daemon includes what it builds on, directly and further down."""
    src = tmp_path / "src/emlio"
    add(src / "base/status.h", SPDX + "#pragma once\n")
    add(src / "base/CMakeLists.txt", "emlio_module(NAME base)\n")
    add(src / "daemon/daemon.cc", SPDX + '#include "emlio/dataset/dataset.h"\n')
    add(src / "daemon/daemon_test.cc", SPDX + '#include "emlio/tfrecord/record.h"\n')
    add(
        src / "daemon/CMakeLists.txt",
        "emlio_module(NAME daemon SOURCES daemon.cc DEPS emlio::base)\n"
        "emlio_test(NAME daemon_test SOURCES daemon_test.cc DEPS emlio::daemon)\n",
    )
    add(tmp_path / "scripts/run", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
    return tmp_path


def test_a_clean_tree_has_no_findings(tree: Path) -> None:
    assert check(tree) == (0, [])


@pytest.mark.parametrize(
    ("path", "text", "finding"),
    [
        ("base/x.h", SPDX + '#pragma once\n#include "emlio/wire/a.h"\n', "base must not use wire"),
        ("plan/x.h", SPDX + '#pragma once\n#include "emlio/wire/a.h"\n', "plan must not use wire"),
        ("wire/CMakeLists.txt", "DEPS emlio::base emlio::session", "wire must not use session"),
        ("misc/x.h", SPDX + "#pragma once\n", "no such module"),
        ("base/x.h", SPDX, "no #pragma once"),
        ("base/x.h", "#pragma once\n", "does not begin with the two SPDX lines"),
        ("daemon/dead_test.cc", SPDX, "it is never built"),
        ("daemon/test.cc", SPDX, "it is never built"),  # a suffix of a name is not that name
        ("../../scripts/other", "#!/bin/sh\n", "no line SPDX"),
        ("../../benchmarks/loopback/run", "#!/bin/sh\n", "no line SPDX"),
        ("../../python/emlio/a.py", "import os\n", "no line SPDX"),
    ],
)
def test_a_violation_is_found(tree: Path, path: str, text: str, finding: str) -> None:
    add(tree / "src/emlio" / path, text)
    status, lines = check(tree)
    assert status == 1
    assert len(lines) == 1
    assert Path(path).name in lines[0] or finding == "no such module"
    assert finding in lines[0]
