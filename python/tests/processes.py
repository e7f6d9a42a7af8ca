# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Daemons and Python programs in processes of their own."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
START_DEADLINE_S = 60


def emlio_executable() -> str:
    """$EMLIO_BIN, the one beside the interpreter, the repository's .venv, or the one on PATH."""
    beside = Path(sys.executable).with_name("emlio")
    for candidate in (os.environ.get("EMLIO_BIN"), beside, REPOSITORY / ".venv/bin/emlio", "emlio"):
        if candidate and (found := shutil.which(candidate)):
            return found
    pytest.fail("no emlio executable: run scripts/setup, or set EMLIO_BIN")


class Daemon:
    """`emlio serve` of one folder of shards, ready when made. `url` names its data set."""

    def __init__(self, folder: Path, scratch: Path, *options: str) -> None:
        ready, log = scratch / "ready", scratch / "log"
        command = [emlio_executable(), "serve", f"data={folder}", "--bind", "127.0.0.1:0", *options]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "--ready-file", str(ready)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + START_DEADLINE_S
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"emlio serve did not start:\n{log.read_text()}")
            time.sleep(0.005)
        self.url = ready.read_text().strip() + "/data"

    @property
    def pid(self) -> int:
        return self._process.pid

    def freeze(self) -> None:
        """Makes it neither read nor write until `thaw`; its connections stay."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def start_python(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Starts a program in an interpreter of its own; sys.argv[1:] are the arguments."""
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_python(code: str, *arguments: object, timeout_s: float = 60) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of such a program."""
    with start_python(code, *arguments) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"still running after {timeout_s} s\n{out}\n{err}")
    return process.returncode, out, err
