# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs `emlio serve` for tests."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

START_DEADLINE_S = 60
STOP_DEADLINE_S = 30


@dataclass
class Daemon:
    """A running `emlio serve`."""

    process: subprocess.Popen[bytes]
    endpoint: str
    log: Path

    @property
    def port(self) -> int:
        return int(self.endpoint.rpartition(":")[2])

    def stop(self) -> int:
        """Ends it as an operator would; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class Serve(Protocol):
    """Starts a daemon and waits until it is ready."""

    def __call__(
        self, datasets: Mapping[str, str | Path], extra_args: Sequence[str] = ()
    ) -> Daemon: ...


def start_daemon(
    executable: str,
    directory: Path,
    datasets: Mapping[str, str | Path],
    extra_args: Sequence[str],
) -> Daemon:
    """On a free port of loopback; log, index cache and ready file go into `directory`."""
    ready, log = directory / "ready", directory / "log"
    command = [executable, "serve", *(f"{name}={glob}" for name, glob in datasets.items())]
    command += ["--bind", "127.0.0.1:0", "--ready-file", str(ready), *extra_args]
    environment = os.environ | {"XDG_CACHE_HOME": str(directory / "cache")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        return Daemon(process, _wait_until_ready(process, ready, log), log)
    except BaseException:
        process.kill()
        process.wait()
        raise


def _wait_until_ready(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    """The endpoint, once the daemon has written it into the file that appears whole."""
    deadline = time.monotonic() + START_DEADLINE_S
    while not ready.exists():
        if process.poll() is not None:
            raise RuntimeError(f"emlio serve ended with {process.returncode}:\n{log.read_text()}")
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"emlio serve is not ready after {START_DEADLINE_S} s:\n{log.read_text()}"
            )
        time.sleep(0.005)
    return ready.read_text().strip()
