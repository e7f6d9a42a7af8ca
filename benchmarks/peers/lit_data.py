# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""LitData: chunks in an S3 bucket, for which nginx stands in.

Settings. workers=4, max_pre_download=4: 8 workers are slower on two cores at every round-trip time.
Chunks of 64 MB (smaller for small data sets), no compression, no shuffle. Its local cache is in
memory (/dev/shm) and empty at the start; for several passes the index names every chunk as often,
under other names.

LitData's own S3 client (obstore) refuses http:// endpoints and heeds no variable that would allow
them: the option is added to the ones that it passes to that client.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import servers
from benchmarks.peers.images import SHARDS, image_path, made
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Marks, Peer, Service
from benchmarks.peers.reading import Recorder, Task, run_action
from benchmarks.peers.s3 import KEY, REGION, local_cache, s3_variables
from benchmarks.peers.torch_batches import collate, record, worker_options

CHUNK_BYTES = 64 << 20
INDEX = "index.json"


class LitData(Peer):
    name = "litdata"
    title = "LitData over S3"
    environment = "litdata"
    programs = (servers.NGINX,)
    defaults: ClassVar[Mapping[str, Any]] = {"workers": 4, "max_pre_download": 4}

    def prepare(self) -> Path:
        return self._bucket()

    def _bucket(self) -> Path:
        images = self.work.images
        chunk_bytes = min(CHUNK_BYTES, max(1 << 16, images.total_bytes // SHARDS))

        def make(folder: Path) -> None:
            self.run_in_environment(
                "prepare", images=str(images.folder), folder=str(folder), chunk_bytes=chunk_bytes
            )

        once = images.made("litdata", make)
        passes = self.work.passes
        if passes == 1:
            return once
        return made(
            once.with_name(f"litdata-x{passes}"), lambda folder: repeat(once, folder, passes)
        )

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        with servers.nginx(node, self.work.images.root, self.work.scratch) as url:
            yield {"endpoint": url, "remote": f"s3://{self._bucket().name}"}

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        with local_cache(self.work.scratch) as cache:
            told = {**service, "cache": cache}
            return self.run_reader(node, told, marks, **s3_variables(service["endpoint"]))


def repeat(source: Path, folder: Path, passes: int) -> None:
    """A data set that names every chunk so many times; the copies are hard links."""
    index = json.loads((source / INDEX).read_text())
    chunks = []
    for number in range(passes):
        for chunk in index["chunks"]:
            name = f"pass{number}-{chunk['filename']}"
            os.link(source / chunk["filename"], folder / name)
            chunks.append({**chunk, "filename": name})
    (folder / INDEX).write_text(json.dumps({**index, "chunks": chunks}))


def load(path: str) -> dict[str, bytes]:
    return {"jpg": Path(path).read_bytes()}


def prepare(task: Task) -> None:
    import litdata

    litdata.optimize(
        fn=load,
        inputs=[f"{task['images']}/{image_path(number)}" for number in range(task["count"])],
        output_dir=task["folder"],
        num_workers=1,
        chunk_bytes=task["chunk_bytes"],
    )


def read(task: Task) -> None:
    import litdata
    import torch
    from litdata.streaming import downloader

    torch.set_num_threads(1)
    options = dict(downloader._OBSTORE_CLIENT_OPTIONS or {})
    downloader._OBSTORE_CLIENT_OPTIONS = {**options, "allow_http": True}
    dataset = litdata.StreamingDataset(
        task["service"]["remote"],
        cache_dir=task["service"]["cache"],
        shuffle=False,
        drop_last=False,
        max_pre_download=task["settings"]["max_pre_download"],
        storage_options={
            "endpoint_url": task["service"]["endpoint"],
            "aws_access_key_id": KEY,
            "aws_secret_access_key": KEY,
            "region_name": REGION,
        },
    )
    with Recorder(task) as recorder:
        for batch in litdata.StreamingDataLoader(
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
