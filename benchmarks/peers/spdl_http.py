# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""SPDL: a pipeline of threads that fetches each image by HTTP from nginx.

Settings. threads=64, each with a connection that it keeps; 32 and 64 were tried, 64 is better from
10 ms on. Reading from an NFS mount instead was slower at every round-trip time. The next 8 batches
are kept ready.

Decoding: spdl.io.load_image_batch (FFmpeg), a batch a thread, as many threads as processors.
"""

import contextlib
import http.client
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from benchmarks.peers import servers
from benchmarks.peers.decoding import Pictures, processors
from benchmarks.peers.images import image_path
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Peer, Service
from benchmarks.peers.reading import SIDE, Recorder, Task, number_of, run_action

BATCHES_READY = 8


class Spdl(Peer):
    name = "spdl"
    title = "SPDL over HTTP"
    environment = "spdl"
    programs = (servers.NGINX,)
    packages = ("ffmpeg",)  # its libraries, to decode with
    defaults: ClassVar[Mapping[str, Any]] = {"threads": 64}

    def prepare(self) -> Path:
        return self.work.images.folder

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        with servers.nginx(node, self.work.images.folder, self.work.scratch) as url:
            yield {"url": url}


def read(task: Task) -> None:
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    scale = spdl.io.get_video_filter_desc(scale_width=SIDE, scale_height=SIDE, scale_mode=None)
    host = urlsplit(task["service"]["url"]).netloc
    threads = task["settings"]["threads"]
    own = threading.local()

    def fetch(path: str) -> bytes:
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(host)
        own.connection.request("GET", path)
        response = own.connection.getresponse()
        if response.status != 200:
            raise OSError(f"{path}: HTTP {response.status}")
        body: bytes = response.read()
        return body

    def decode(images: list[bytes]) -> Pictures:
        buffer = spdl.io.load_image_batch(images, width=None, height=None, filter_desc=scale)
        return [number_of(image) for image in images], spdl.io.to_numpy(buffer)

    paths = [f"/{image_path(number)}" for number in range(task["count"])] * task["passes"]
    with Recorder(task) as recorder:
        builder = PipelineBuilder().add_source(paths).pipe(fetch, concurrency=threads)
        builder.aggregate(task["batch_size"])
        if task["decode"]:
            builder.pipe(decode, concurrency=processors())
            threads += processors()
        pipeline = builder.add_sink(BATCHES_READY).build(num_threads=threads)
        with pipeline.auto_stop():
            for batch in pipeline:
                if task["decode"]:
                    recorder.add_pictures(*batch)
                else:
                    recorder.add(batch)


if __name__ == "__main__":
    run_action(read=read)
