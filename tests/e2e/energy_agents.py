# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts of their own, and their agents, on one machine."""

import subprocess
import time
from pathlib import Path

from command_line import DEADLINE_S
from energy_host import EnergyHost


def give_boot_id(host: EnergyHost, boot_id: str) -> None:
    """A host of its own, though all of them are this one."""
    folder = host.root / "proc/sys/kernel/random"
    folder.mkdir(parents=True)
    (folder / "boot_id").write_text(f"{boot_id}\n")


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
