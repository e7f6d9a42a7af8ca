# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA DALI without a GPU: its TFRecord reader on a mounted NFSv4 export.

Settings. readers=4: as many reader operators, each with a quarter of the shards and of the batch;
one reads its files one request after another. 1 reader gives half as much from 30 ms on.
read_ahead_kb=8192: with the kernel's default of 128 it is a tenth at 10 ms. dont_use_mmap=True, as
documented for network file systems; queue=64 samples batches read ahead by each reader. The indexes
are copied to the compute node beforehand. Slower ways: readers.file (29 images/s at 10 ms),
external_source with 16 processes, and DALI's own S3 client (144 images/s at 10 ms).

Decoding: fn.decoders.image and fn.resize, as many threads as there are processors.

DALI's readers wrap around at the end; of the last batches only what belongs to the pass is counted.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import mounts, servers
from benchmarks.peers.decoding import dali_outputs, from_dali, processors
from benchmarks.peers.node import Node
from benchmarks.peers.peer import BATCH_SIZE, Marks, Peer, Service
from benchmarks.peers.reading import Recorder, Task, run_action
from benchmarks.processes import BenchmarkError

PIPELINE_BATCHES = 4


class Dali(Peer):
    name = "dali"
    title = "DALI over NFSv4"
    environment = "dali"
    programs = (servers.GANESHA, mounts.FUSERMOUNT)
    packages = mounts.MOUNT_PACKAGES
    builds = (mounts.NFS_MOUNT,)
    mounts = True
    defaults: ClassVar[Mapping[str, Any]] = {
        "readers": 4,
        "queue": 64,
        "connections": 32,
        "read_ahead_kb": 8192,
    }

    def prepare(self) -> Path:
        if BATCH_SIZE % self.settings["readers"] != 0:
            raise BenchmarkError(f"dali.readers must divide the batch of {BATCH_SIZE} images")
        return self._shards

    @property
    def _shards(self) -> Path:
        return self.work.images.example(self.work.tools.emlio)

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        with servers.nfs(node, self.work.images.root, self.work.scratch) as url:
            yield {"url": url}

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        with (
            mounts.nfs_mounted(
                node,
                service["url"],
                self.work.scratch,
                passes=self.work.passes,
                connections=self.settings["connections"],
                read_ahead_kb=self.settings["read_ahead_kb"],
            ) as roots,
            tempfile.TemporaryDirectory(dir=self.work.scratch) as indexes,
        ):
            shards = self._shards
            for index in (shards / "index").iterdir():
                shutil.copy(index, indexes)
            here = [str(root / shards.name) for root in roots]
            return self.run_reader(node, {"folders": here, "indexes": indexes}, marks)


def read(task: Task) -> None:
    import numpy as np
    from nvidia.dali import fn, pipeline_def, tfrecord

    settings = task["settings"]
    indexes = sorted(Path(task["service"]["indexes"]).iterdir())
    # Of every shard of every pass: its path, its index, its images.
    shards = [
        (f"{folder}/{index.stem}", str(index), len(index.read_text().splitlines()))
        for folder in task["service"]["folders"]
        for index in indexes
    ]
    readers = min(settings["readers"], len(shards))
    shares = [shards[i::readers] for i in range(readers)]
    images_of = [sum(count for _, _, count in share) for share in shares]

    @pipeline_def(  # type: ignore[untyped-decorator]
        batch_size=task["batch_size"] // readers,
        num_threads=processors(),
        device_id=None,
        prefetch_queue_depth=PIPELINE_BATCHES,
    )
    def pipeline() -> Any:
        images = []
        for share in shares:
            columns: Any = fn.readers.tfrecord(
                path=[path for path, _, _ in share],
                index_path=[index for _, index, _ in share],
                features={"image/encoded": tfrecord.FixedLenFeature([], tfrecord.string, "")},
                prefetch_queue_depth=settings["queue"],
                dont_use_mmap=True,
            )
            images.append(columns["image/encoded"])
        if task["decode"]:
            return tuple(output for encoded in images for output in dali_outputs(encoded))
        return tuple(images)

    built = pipeline()
    with Recorder(task) as recorder:
        built.build()
        left = list(images_of)
        while any(left):
            outputs = built.run()
            batch: list[Any] = []
            numbers_of_batch: list[int] = []
            for i in range(readers):
                if task["decode"]:
                    numbers, images = from_dali(*outputs[2 * i : 2 * i + 2])
                    numbers_of_batch += numbers[: left[i]]
                else:
                    images = [np.asarray(image) for image in outputs[i]]
                taken = images[: left[i]]
                batch += list(taken)
                left[i] -= len(taken)
            if task["decode"]:
                recorder.add_pictures(numbers_of_batch, batch)
            else:
                recorder.add(batch)


if __name__ == "__main__":
    run_action(read=read)
