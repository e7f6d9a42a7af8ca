# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""File systems of the storage node, mounted on the compute node for one run: nothing is cached."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.node import Node
from benchmarks.peers.peer import BUILD, Program
from benchmarks.peers.servers import SSH_CIPHER, find
from benchmarks.processes import Background, BenchmarkError, command_line

SSHFS = Program("sshfs", "sshfs")
FUSERMOUNT = Program("fusermount3", "fuse3")
NFS_MOUNT = "nfs_mount"
MOUNT_PACKAGES = ("libfuse3-dev", "libnfs-dev")  # to build it with
FUSE_THREADS = 128  # libfuse's 10 would be the limit of requests under way


@contextlib.contextmanager
def nfs_mounted(
    node: Node, url: str, scratch: Path, *, passes: int, connections: int, read_ahead_kb: int
) -> Iterator[list[Path]]:
    """An NFSv4 export, by nfs_mount; gives a folder for each pass over it (nfs_mount.cc).

    read_ahead_kb is that of the mount (`/sys/class/bdi`), which the kernel reads ahead in files
    that are read in sequence. Its default of 128 is what a user gets who sets nothing.
    """
    command = command_line(
        *(BUILD / NFS_MOUNT, url, scratch / "nfs", connections, passes, "-f"),
        *("-o", f"ro,fsname=nfs,max_threads={FUSE_THREADS},max_idle_threads={FUSE_THREADS}"),
    )
    with _mounted(node, command, scratch / "nfs", read_ahead_kb) as folder:
        yield [folder / str(i) for i in range(passes)]


@contextlib.contextmanager
def sshfs_mounted(
    node: Node, login: str, port: int, key: Path, remote: Path, scratch: Path, *, connections: int
) -> Iterator[Path]:
    """A folder of another host, by sshfs; gives the folder here."""
    ssh = [
        f"IdentityFile={key}",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
        "Compression=no",
        f"Ciphers={SSH_CIPHER}",
    ]
    cache = ["kernel_cache", "auto_cache", "dcache_max_size=1000000"]
    cache += [f"{name}=600" for name in ("dcache_timeout", "attr_timeout", "entry_timeout")]
    options = ["ro", f"max_conns={connections}", "max_read=1048576", *cache, *ssh]
    command = command_line(
        *(find(SSHFS), "-f", "-p", port, f"{login}:{remote}", scratch / "sshfs"),
        *("-o", ",".join(options)),
    )
    with _mounted(node, command, scratch / "sshfs", 8192) as folder:
        yield folder


@contextlib.contextmanager
def _mounted(node: Node, command: list[str], folder: Path, read_ahead_kb: int) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    log = folder.with_suffix(".log")
    try:
        with Background(command, log, popen=node.popen) as program:
            program.wait_until(lambda: os.path.ismount(folder))
            _set_read_ahead(folder, read_ahead_kb)
            yield folder
    finally:
        if os.path.ismount(folder):  # the program was killed before it could do so
            subprocess.run([find(FUSERMOUNT), "-u", "-z", folder], check=False)


def _set_read_ahead(folder: Path, kb: int) -> None:
    device = folder.stat().st_dev
    limit = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    try:
        limit.write_text(str(kb))
    except OSError as error:
        raise BenchmarkError(
            f"the read-ahead of a mount can only be set by root: {error}"
        ) from error
