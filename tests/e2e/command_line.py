# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the `emlio` executable to its end, on small shards."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DEADLINE_S = 30  # against hangs only

RECORDS = 300
RECORD_BYTES = 1000
SHARDS = 3
FRAMED_BYTES = 12 + RECORD_BYTES + 4

MANY_RUNS_S = 120  # the same, for subcommands that run a command again and again

Emlio = Callable[..., "subprocess.CompletedProcess[str]"]
Energy = Callable[..., dict[str, Any]]


def environment(tmp_path: Path) -> dict[str, str]:
    runtime = tmp_path / "runtime"
    runtime.mkdir(exist_ok=True)
    return {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_RUNTIME_DIR": str(runtime),
    }


def run_emlio(
    executable: str,
    tmp_path: Path,
    *args: object,
    code: int | None = 0,
    deadline_s: float = DEADLINE_S,
    before: Callable[[], None] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """With an index cache of its own. `code` None: any; `before` runs in the new process."""
    done = subprocess.run(
        [executable, *map(os.fsencode, map(str, args))],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=deadline_s,
        env=environment(tmp_path),
        preexec_fn=before,
    )
    if code is not None:
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def run_energy(
    emlio: Emlio,
    tmp_path: Path,
    subcommand: str,
    *args: object,
    code: int = 0,
    deadline_s: float = MANY_RUNS_S,
) -> dict[str, Any]:
    """What a subcommand of `emlio energy` wrote as JSON."""
    report = tmp_path / f"{subcommand}.json"
    emlio("energy", subcommand, "--json", report, *args, code=code, deadline_s=deadline_s)
    result: dict[str, Any] = json.loads(report.read_text())
    return result


def make_shards(emlio: Emlio, folder: Path) -> Path:
    emlio(
        *("convert", "synthetic", folder, "--records", RECORDS),
        *("--record-bytes", RECORD_BYTES, "--shards", SHARDS),
    )
    return folder


def shard_path(folder: Path, number: int) -> Path:
    return sorted(folder.glob("*.tfrecord"))[number]


def flip_bit(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def wait_until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)


def pull_report(emlio: Emlio, *args: object, code: int = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(emlio("pull", *args, "--json", "-", code=code).stdout)
    return report


@contextlib.contextmanager
def endless_pull(
    emlio_bin: str, tmp_path: Path, source: object, *args: object
) -> Iterator[subprocess.Popen[str]]:
    """A receiver in the middle of its work."""
    dump = tmp_path / "endless"
    process = subprocess.Popen(
        [
            *(emlio_bin, "pull", str(source), "--batch-size", "10", "--epochs", "100000000"),
            *("--dump-indices", str(dump), "--json", "-", *map(str, args)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    )
    try:
        wait_until(
            lambda: (dump.exists() and dump.stat().st_size > 0) or process.poll() is not None,
            "the first batches came",
        )
        yield process
    finally:
        process.kill()
        process.communicate()


def read_dump(path: Path) -> list[list[int]]:
    """What --dump-indices wrote."""
    return [[int(word) for word in line.split()] for line in path.read_text().splitlines()]
