# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""SPDL: a pipeline of threads that fetches each image by HTTP from nginx.

Settings. threads=64, each with a connection that it keeps; 32 and 64 were tried, 64 is better from
10 ms on. Reading from an NFS mount instead was slower at every round-trip time. The next 8 batches
are kept ready.
"""

import contextlib
import http.client
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from benchmarks.peers import servers
from benchmarks.peers.images import image_path
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Peer, Service
from benchmarks.peers.reading import Recorder, Task, run_action

BATCHES_READY = 8


class Spdl(Peer):
    name = "spdl"
    title = "SPDL over HTTP"
    environment = "spdl"
    programs = (servers.NGINX,)
    defaults: ClassVar[Mapping[str, Any]] = {"threads": 64}

    def prepare(self) -> Path:
        return self.work.images.folder

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        with servers.nginx(node, self.work.images.folder, self.work.scratch) as url:
            yield {"url": url}


def read(task: Task) -> None:
    from spdl.pipeline import PipelineBuilder

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

    paths = [f"/{image_path(number)}" for number in range(task["count"])] * task["passes"]
    with Recorder(task) as recorder:
        pipeline = (
            PipelineBuilder()
            .add_source(paths)
            .pipe(fetch, concurrency=threads)
            .aggregate(task["batch_size"])
            .add_sink(BATCHES_READY)
            .build(num_threads=threads)
        )
        with pipeline.auto_stop():
            for batch in pipeline:
                recorder.add(batch)


if __name__ == "__main__":
    run_action(read=read)
