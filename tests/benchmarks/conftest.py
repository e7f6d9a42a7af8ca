# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Images and installed programs for the tests of benchmarks/."""

import os
import shutil
from pathlib import Path

import pytest

from benchmarks.peers.environments import Environments, default_cache
from benchmarks.peers.images import ImageSet, make_images
from benchmarks.peers.peer import Tools

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    """150 synthetic images of 10 KB: two whole batches and a part of one."""
    return make_images(tmp_path_factory.mktemp("images"), 150, 10_000)


@pytest.fixture(scope="session")
def tools() -> Tools:
    """What is installed on this machine."""
    for candidate in (os.environ.get("EMLIO_BIN"), REPOSITORY / ".venv/bin/emlio", "emlio"):
        if candidate and (found := shutil.which(candidate)):
            return Tools(Environments(default_cache()), Path(found).absolute())
    pytest.fail("no emlio executable: run scripts/setup, or set EMLIO_BIN")
