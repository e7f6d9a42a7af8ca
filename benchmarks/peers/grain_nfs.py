# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Grain: ArrayRecord files on a mounted NFSv4 export, read by threads.

Settings. threads=64, buffer=512 (records read ahead); read-ahead of the mount 8 MB: a third better
than the kernel's default of 128 KB. group_size:1 and uncompressed, without which single records
cannot be read alone. Worker processes (mp_prefetch) were not tried: reading needs no interpreter,
nor does decoding, which Pillow does in the threads that read.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import mounts, servers
from benchmarks.peers.decoding import decode
from benchmarks.peers.images import image_path
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Marks, Peer, Service
from benchmarks.peers.reading import Recorder, Task, number_of, run_action


class Grain(Peer):
    name = "grain"
    title = "Grain over NFSv4"
    environment = "grain"
    programs = (servers.GANESHA, mounts.FUSERMOUNT)
    packages = mounts.MOUNT_PACKAGES
    builds = (mounts.NFS_MOUNT,)
    mounts = True
    defaults: ClassVar[Mapping[str, Any]] = {
        "threads": 64,
        "buffer": 512,
        "connections": 64,
        "read_ahead_kb": 8192,
    }

    def prepare(self) -> Path:
        images = self.work.images

        def make(folder: Path) -> None:
            shards = [[numbers.start, numbers.stop] for numbers in images.shards()]
            self.run_in_environment(
                "prepare", images=str(images.folder), folder=str(folder), shards=shards
            )

        return images.made("arrayrecord", make)

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
            here = [str(root / "arrayrecord") for root in roots]
            return self.run_reader(node, {"folders": here}, marks)


def prepare(task: Task) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    for index, (begin, end) in enumerate(task["shards"]):
        path = f"{task['folder']}/train-{index:05d}.arrayrecord"
        writer = ArrayRecordWriter(path, "group_size:1,uncompressed")
        for number in range(begin, end):
            writer.write((Path(task["images"]) / image_path(number)).read_bytes())
        writer.close()


def read(task: Task) -> None:
    import grain
    from absl import flags

    flags.FLAGS(["grain_nfs"])  # Grain reads flags, which no absl program has parsed here
    settings = task["settings"]
    files = [
        str(path)
        for folder in task["service"]["folders"]
        for path in sorted(Path(folder).glob("*.arrayrecord"))
    ]
    with Recorder(task) as recorder:
        images = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files))
        options = grain.ReadOptions(
            num_threads=settings["threads"], prefetch_buffer_size=settings["buffer"]
        )
        if task["decode"]:
            images = images.map(lambda image: (number_of(image), decode(image)))
            for numbers, pictures in images.to_iter_dataset(options).batch(task["batch_size"]):
                recorder.add_pictures(numbers, pictures)
        else:
            for batch in images.to_iter_dataset(options).batch(task["batch_size"], batch_fn=list):
                recorder.add(batch)


if __name__ == "__main__":
    run_action(prepare=prepare, read=read)
