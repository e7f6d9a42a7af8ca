# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The real executable, on a free port, with files of the test's own."""

import functools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from command_line import Emlio, make_shards, run_emlio
from daemon_process import Daemon, Serve, start_daemon

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def emlio_bin() -> str:
    """The executable: $EMLIO_BIN, the repository's .venv, or the one on PATH."""
    for candidate in (os.environ.get("EMLIO_BIN"), str(REPOSITORY / ".venv/bin/emlio"), "emlio"):
        if candidate and (found := shutil.which(candidate)):
            return found
    pytest.fail("no emlio executable: run scripts/setup, or set EMLIO_BIN")


@pytest.fixture
def emlio(emlio_bin: str, tmp_path: Path) -> Emlio:
    """Runs the executable to its end, with its own index cache."""
    return functools.partial(run_emlio, emlio_bin, tmp_path)


@pytest.fixture
def shards(emlio: Emlio, tmp_path: Path) -> Path:
    """A folder of 3 shards of 100 records of 1000 bytes each."""
    return make_shards(emlio, tmp_path / "shards")


@pytest.fixture
def serve(emlio_bin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts daemons: serve({"name": "glob"}, extra_args=()) gives a Daemon that is ready."""
    daemons: list[Daemon] = []

    def start(datasets: Mapping[str, str | Path], extra_args: Sequence[str] = ()) -> Daemon:
        directory = tmp_path_factory.mktemp("serve")
        daemons.append(start_daemon(emlio_bin, directory, datasets, extra_args))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.stop()
