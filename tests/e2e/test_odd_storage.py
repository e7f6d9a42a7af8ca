# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""File systems that refuse what others allow: mapping files, and writing."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import DEADLINE_S, RECORDS, SHARDS, Emlio, environment
from daemon_process import Serve
from minimal_client import read_epoch


@pytest.fixture
def no_mmap(shards: Path, tmp_path: Path) -> Iterator[Path]:
    """The same shards, on a file system that refuses to map them."""
    mount = tmp_path / "no-mmap"
    mount.mkdir()
    server = subprocess.Popen(
        [
            sys.executable,
            str(Path(__file__).with_name("no_mmap_mount.py")),
            str(shards),
            str(mount),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert server.stderr is not None
    try:
        if server.stdout.readline() != "ready\n":
            pytest.skip(f"no FUSE here: {server.stderr.read().strip().splitlines()[-1]}")
        yield mount
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=False, capture_output=True)
        server.kill()
        server.communicate()


def test_shards_that_cannot_be_mapped_are_read(serve: Serve, shards: Path, no_mmap: Path) -> None:
    names = sorted(path.name for path in shards.glob("*.tfrecord"))
    assert len(names) == SHARDS
    with (
        (no_mmap / names[0]).open("rb") as file,
        pytest.raises(OSError, match="No such device") as refused,
    ):
        mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    assert refused.value.errno == errno.ENODEV

    usual = serve({"data": f"{shards}/*.tfrecord"})
    assert "mmap" in usual.log.read_text()
    expected = read_epoch(usual.endpoint, "data", 16, shuffle=(1,))
    assert len(expected) == RECORDS
    for io in ("auto", "pread"):
        daemon = serve({"data": f"{no_mmap}/*.tfrecord"}, ["--io", io])
        assert "pread" in daemon.log.read_text()
        assert read_epoch(daemon.endpoint, "data", 16, shuffle=(1,)) == expected


def test_who_insists_on_mapping_is_told_why_not(emlio: Emlio, no_mmap: Path) -> None:
    done = emlio("serve", f"data={no_mmap}/*.tfrecord", "--io", "mmap", "--check", code=1)
    assert f"cannot map {no_mmap}/" in done.stderr
    assert "its file system does not let files be mapped; use io 'pread'" in done.stderr


def test_every_command_works_where_nothing_can_be_mapped(emlio: Emlio, no_mmap: Path) -> None:
    pattern = f"{no_mmap}/*.tfrecord"
    # The indexes cannot be written there, and are kept in memory.
    done = emlio("serve", f"data={pattern}", "--index-beside", "--check")
    assert "cannot be kept" in done.stderr
    emlio("index", pattern)
    emlio("verify", pattern)
    emlio("inspect", pattern)
    emlio("pull", pattern, "--batch-size", 7, "--shuffle", "full", "--check-once")


def traces(folder: Path) -> dict[str, tuple[str, int, int, int, int]]:
    found = {}
    for path in sorted(folder.iterdir()):
        status = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        times = (status.st_mtime_ns, status.st_ctime_ns)
        found[path.name] = (digest, status.st_size, status.st_ino, *times)
    return found


def run_on_read_only_mount(
    folder: Path, tmp_path: Path, *command: object
) -> subprocess.CompletedProcess[str]:
    """In a namespace of its own, where `folder` is a mount that nobody can write to."""
    place = shlex.quote(str(folder))
    mount = f"mount --bind {place} {place} && mount -o remount,bind,ro {place}"
    alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    probe = subprocess.run([*alone, "sh", "-c", mount], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"no mounts of our own here: {probe.stderr.strip()}")
    return subprocess.run(
        [
            *(*alone, "sh", "-c", f'{mount} && ! touch {place}/x 2>/dev/null && exec "$@"', "sh"),
            *map(str, command),
        ],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=environment(tmp_path),
    )


def test_an_epoch_from_a_read_only_mount_leaves_no_trace(
    emlio_bin: str, shards: Path, tmp_path: Path
) -> None:
    before = traces(shards)

    def run(*args: object) -> subprocess.CompletedProcess[str]:
        return run_on_read_only_mount(shards, tmp_path, emlio_bin, *args)

    done = run("serve", f"data={shards}", "--index-beside", "--check")
    assert done.returncode == 0, done.stderr
    assert f"{SHARDS} of {SHARDS} indexes cannot be kept" in done.stderr
    assert "Read-only file system" in done.stderr
    done = run("pull", shards, "--batch-size", 7, "--shuffle", "full", "--check-once")
    assert done.returncode == 0, done.stderr
    assert traces(shards) == before
