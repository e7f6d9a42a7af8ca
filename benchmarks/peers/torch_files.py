# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader over a mounted folder of image files: NFSv4, and sshfs.

A map-style data set, a file an image, worker processes; what most training scripts do.

Settings. workers=16: with a file a sample, images in flight are workers, and the rate at a distance
is about workers / (2.6 round trips). 0, 4, 8 and 16 were tried: 16 is the best from 10 ms on, 4 to
8 at 0 ms on two cores. prefetch_factor=4. Paths are known before the clock starts.
NFS: connections=32, each worker never waits for one. Read-ahead does not matter to small files.
sshfs: max_conns=16; its main loop has at most 10 requests under way. Caches on, cheapest cipher.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import mounts, servers
from benchmarks.peers.images import passes_of
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Marks, Peer, Service
from benchmarks.peers.reading import Recorder, Task, run_action
from benchmarks.peers.torch_batches import collate, record, worker_options

LISTED_AT_A_TIME = 32


class TorchFiles(Peer):
    environment = "torch"
    mounts = True

    def read_folders(self, node: Node, folders: Sequence[Path], marks: Marks) -> dict[str, Any]:
        """Reads all images below these folders."""
        return self.run_reader(node, {"folders": [str(folder) for folder in folders]}, marks)


class TorchNfs(TorchFiles):
    name = "torch-nfs"
    title = "PyTorch DataLoader over NFSv4"
    programs = (servers.GANESHA, mounts.FUSERMOUNT)
    packages = mounts.MOUNT_PACKAGES
    builds = (mounts.NFS_MOUNT,)
    defaults: ClassVar[Mapping[str, Any]] = {
        "workers": 16,
        "connections": 32,
        "read_ahead_kb": 8192,
    }

    def prepare(self) -> Path:
        return self.work.images.folder

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        with servers.nfs(node, self.work.images.root, self.work.scratch) as url:
            yield {"url": url}

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        with mounts.nfs_mounted(
            node,
            service["url"],
            self.work.scratch,
            passes=self.work.passes,
            connections=self.settings["connections"],
            read_ahead_kb=self.settings["read_ahead_kb"],
        ) as roots:
            name = self.work.images.folder.name
            return self.read_folders(node, [root / name for root in roots], marks)


class TorchSshfs(TorchFiles):
    name = "torch-sshfs"
    title = "PyTorch DataLoader over sshfs"
    programs = (servers.SSHD, servers.SSH_KEYGEN, mounts.SSHFS, mounts.FUSERMOUNT)
    defaults: ClassVar[Mapping[str, Any]] = {"workers": 16, "connections": 16}

    def prepare(self) -> Path:
        return self._passes()[0]

    def _passes(self) -> list[Path]:
        return passes_of(self.work.images.folder, self.work.passes)

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        with servers.sshd(node, self.work.scratch) as (login, port, key):
            yield {"login": login, "port": port, "key": str(key)}

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        with mounts.sshfs_mounted(
            node,
            service["login"],
            service["port"],
            Path(service["key"]),
            self.work.images.root,
            self.work.scratch,
            connections=self.settings["connections"],
        ) as root:
            return self.read_folders(node, [root / path.name for path in self._passes()], marks)


def list_images(folders: Sequence[str]) -> list[Path]:
    """Paths in the order of the images; many folders are listed at a time, each a few round trips.

    File systems keep what they are told about files then.
    """
    with ThreadPoolExecutor(LISTED_AT_A_TIME) as threads:

        def list_folder(folder: Path) -> list[Path]:
            return [folder / entry.name for entry in os.scandir(folder)]

        roots = [Path(folder) for folder in folders]
        classes = threads.map(lambda root: list(root.iterdir()), roots)
        listed = [list(threads.map(list_folder, found)) for found in classes]
    return [
        path
        for found in listed
        for path in sorted((path for paths in found for path in paths), key=lambda path: path.name)
    ]


def read(task: Task) -> None:
    import torch
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)

    class Files(Dataset[bytes]):
        def __init__(self) -> None:
            self.paths = list_images(task["service"]["folders"])

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> bytes:
            with self.paths[index].open("rb", buffering=0) as file:
                return file.read()

    files = Files()
    with Recorder(task) as recorder:
        for batch in DataLoader(
            files,
            batch_size=task["batch_size"],
            collate_fn=functools.partial(collate, decode=task["decode"]),
            **worker_options(task["settings"]["workers"]),
        ):
            record(recorder, batch)


if __name__ == "__main__":
    run_action(read=read)
