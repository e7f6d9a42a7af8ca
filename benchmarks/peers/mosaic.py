# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""MosaicML Streaming: MDS shards in an S3 bucket, for which nginx stands in.

Settings. workers=8, predownload=1024: 4 workers are best at 0 and 10 ms on two cores, 8 from 30 ms
on. No compression and no hashes, shards of 64 MB (smaller for small data sets, so that every worker
has some), num_canonical_nodes=1, no shuffle. Its local cache is in memory (/dev/shm), empty at the
start; each pass is a stream with a folder of its own in it, else later passes would be local.

Two things had to be put right for it to run at all. It imports torchvision, only for names: an
empty module takes its place, since PyPI's torchvision does not load beside a CPU build of torch.
And the client that reads index.json in the parent is inherited by forked workers, which over plain
HTTP then share one connection and mix up each other's bytes: it is dropped before workers start.
"""

import contextlib
import sys
import types
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import servers
from benchmarks.peers.images import SHARDS, image_path
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Marks, Peer, Service
from benchmarks.peers.reading import Recorder, Task, run_action
from benchmarks.peers.s3 import local_cache, s3_variables
from benchmarks.peers.torch_batches import collate, record, worker_options

SHARD_BYTES = 64 << 20


class Mosaic(Peer):
    name = "mosaic"
    title = "MosaicML Streaming over S3"
    environment = "mosaic"
    programs = (servers.NGINX,)
    defaults: ClassVar[Mapping[str, Any]] = {"workers": 8, "predownload": 1024}

    def prepare(self) -> Path:
        images = self.work.images

        def make(folder: Path) -> None:
            shard_bytes = min(SHARD_BYTES, max(1 << 16, images.total_bytes // SHARDS))
            self.run_in_environment(
                "prepare",
                images=str(images.folder),
                folder=str(folder / "shards"),  # which it wants to make itself
                shard_bytes=shard_bytes,
            )

        return images.made("mds", make)

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        with servers.nginx(node, self.work.images.root, self.work.scratch) as url:
            yield {"endpoint": url, "remote": "s3://mds/shards"}

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        with local_cache(self.work.scratch) as cache:
            told = {**service, "cache": cache}
            return self.run_reader(node, told, marks, **s3_variables(service["endpoint"]))


def without_torchvision() -> None:
    """Makes `streaming` importable: it asks torchvision for these names and calls none of them."""
    parts: dict[str, dict[str, Any]] = {
        "torchvision": {},
        "torchvision.datasets": {"VisionDataset": object},
        "torchvision.transforms": {},
        "torchvision.transforms.functional": {"to_tensor": None},
    }
    for name, attributes in parts.items():
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(attributes)
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


def prepare(task: Task) -> None:
    without_torchvision()
    from streaming import MDSWriter

    with MDSWriter(
        out=task["folder"],
        columns={"jpg": "bytes"},
        compression=None,
        hashes=[],
        size_limit=task["shard_bytes"],
    ) as writer:
        for number in range(task["count"]):
            writer.write({"jpg": (Path(task["images"]) / image_path(number)).read_bytes()})


def read(task: Task) -> None:
    without_torchvision()
    import torch
    from streaming import Stream, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    clean_stale_shared_memory()
    dataset = StreamingDataset(
        streams=[
            Stream(remote=task["service"]["remote"], local=f"{task['service']['cache']}/{i}")
            for i in range(task["passes"])
        ],
        batch_size=task["batch_size"],
        shuffle=False,
        predownload=task["settings"]["predownload"],
        num_canonical_nodes=1,
    )
    for stream in dataset.streams:
        stream._downloader.clean_up()
    with Recorder(task) as recorder:
        for batch in DataLoader(
            dataset,
            batch_size=task["batch_size"],
            collate_fn=lambda samples: collate(
                [sample["jpg"] for sample in samples], decode=task["decode"]
            ),
            **worker_options(task["settings"]["workers"]),
        ):
            record(recorder, batch)


if __name__ == "__main__":
    run_action(prepare=prepare, read=read)
