# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Agents of hosts."""

import subprocess
import time
from pathlib import Path

from command_line import DEADLINE_S


def start_agent(
    emlio_bin: str, folder: Path, *args: object
) -> tuple["subprocess.Popen[bytes]", str]:
    """`emlio energy agent` and its endpoint."""
    ready = folder / "agent-ready"
    process = subprocess.Popen(
        [emlio_bin, "energy", "agent", "--ready-file", str(ready), *map(str, args)],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + DEADLINE_S
    while not ready.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process, ready.read_text().strip()
