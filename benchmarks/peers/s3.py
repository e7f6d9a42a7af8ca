# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What clients of S3 are told, so that they read from nginx."""

from pathlib import Path

from benchmarks.peers.reading import Task

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


def local_cache(task: Task) -> Path:
    """Where a loader that downloads shards puts them: in memory, where there is such a folder."""
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(task["scratch"])
