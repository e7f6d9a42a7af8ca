# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Agents of hosts."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from command_line import DEADLINE_S, wait_until

Agent = tuple["subprocess.Popen[bytes]", str]


@contextlib.contextmanager
def running_agent(emlio_bin: str, folder: Path, *args: object) -> Iterator[Agent]:
    """`emlio energy agent` and its endpoint; `folder` is of this agent alone."""
    ready = folder / "agent-ready"
    process = subprocess.Popen(
        [emlio_bin, "energy", "agent", "--ready-file", str(ready), *map(str, args)],
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, "the agent is ready")
        assert process.poll() is None
        yield process, ready.read_text().strip()
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
