# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What clients of S3 are told, so that they read from nginx."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
REGION = "us-east-1"
KEY = "unused"


def s3_variables(endpoint: str) -> dict[str, str]:
    """Environment variables that the clients of S3 in use heed."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
        "S3_ENDPOINT_URL": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextlib.contextmanager
def local_cache(scratch: Path) -> Iterator[str]:
    """Where a loader that downloads shards puts them for one run: in memory, where that goes."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else scratch
    folder = tempfile.mkdtemp(prefix="emlio-peers-", dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
