# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Data sets, loaders and daemons for the tests of the Python package."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import emlio
import shards
from processes import Daemon, emlio_executable

# PyTorch's builds with CUDA bring triton, which has an LLVM of its own, as TensorFlow has: the
# second of the two that comes into a process crashes it. Nothing here needs triton.
sys.modules.setdefault("triton", None)  # type: ignore[arg-type]


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Indexes and energy runs go to directories of the tests, and no launcher is around."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four shards with the records `shards.labelled(0)` to `shards.labelled(99)`."""
    return shards.write_labelled(tmp_path_factory.mktemp("hundred"), 100)


@pytest.fixture(scope="session")
def halves(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Raw records of 40 KB, 40 batches of 8: two in one folder, two in the other, and so on."""
    folder = tmp_path_factory.mktemp("halves")
    command = [emlio_executable(), "convert", "synthetic", str(folder / "all"), "--shards", "40"]
    size = ["--records", "320", "--record-bytes", "40KB"]
    subprocess.run([*command, *size], check=True, capture_output=True)
    halves = (folder / "a", folder / "b")
    for half in halves:
        half.mkdir()
    for number, shard in enumerate(sorted((folder / "all").glob("*.tfrecord"))):
        shard.rename(halves[number // 2 % 2] / shard.name)
    return halves


@pytest.fixture
def load(hundred: Path) -> Iterator[Callable[..., emlio.Loader]]:
    """Opens loaders, of `hundred` unless told otherwise, and closes them at the end."""
    opened = []

    def open_loader(sources: Any = None, **options: Any) -> emlio.Loader:
        options = {"features": shards.FEATURES, "timeout_s": 30, **options}
        if "global_batch_size" not in options:
            options.setdefault("batch_size", 8)
        opened.append(emlio.Loader(hundred if sources is None else sources, **options))
        return opened[-1]

    yield open_loader
    for loader in opened:
        loader.close()


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons on a folder of shards, with options, and kills them at the end."""
    daemons = []

    def start(folder: Path, *options: str) -> Daemon:
        daemons.append(Daemon(folder, tmp_path_factory.mktemp("daemon"), *options))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.kill()
