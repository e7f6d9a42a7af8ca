# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The real executable, on a free port, with files of the test's own."""

import functools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import Emlio, Energy, make_shards, run_emlio, run_energy
from daemon_process import Daemon, Serve, start_daemon
from energy_agents import Agent, running_agent
from energy_host import EnergyHost, two_sockets

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
def host(tmp_path: Path) -> Iterator[EnergyHost]:
    """Two sockets with memory, whose power is known."""
    with two_sockets(tmp_path / "host", boot_id="here") as made:
        yield made


@pytest.fixture
def two_hosts(emlio_bin: str, tmp_path: Path, host: EnergyHost) -> Iterator[Agent]:
    """Beside `host` another one, "there", with an agent: the agent and its endpoint."""
    with two_sockets(tmp_path / "there", boot_id="there") as there:
        options = ("--root", there.root, "--node", "there")
        with running_agent(emlio_bin, tmp_path, *options) as agent:
            yield agent


@pytest.fixture
def bare_root(tmp_path: Path) -> Path:
    """A host without any counter."""
    root = tmp_path / "bare"
    (root / "proc").mkdir(parents=True)
    (root / "proc/cpuinfo").write_text("vendor_id\t: GenuineIntel\nflags\t\t: fpu\n")
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a test keeps runs."""
    return tmp_path / "runs.db"


@pytest.fixture
def energy(emlio: Emlio, tmp_path: Path) -> Energy:
    """Runs a subcommand of `emlio energy`: energy("report", ..., code=0) is what it found."""
    return functools.partial(run_energy, emlio, tmp_path)


@pytest.fixture
def energy_here(energy: Energy, host: EnergyHost, store: Path) -> Energy:
    """The same for those that measure: on `host`, with the runs kept in `store`."""

    def measure(subcommand: str, *args: object, code: int = 0) -> dict[str, Any]:
        return energy(subcommand, "--root", host.root, "--store", store, *args, code=code)

    return measure


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
