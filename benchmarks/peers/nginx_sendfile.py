# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""nginx: what it costs the storage node to send the same shards by sendfile.

The reader fetches whole TFRecord files, several at a time, over connections that it keeps, and
throws the bytes away; its own processor time says nothing. Bytes are those of the files: framing of
16 bytes a record is among them.

Settings. streams=8, files fetched at a time.
"""

import contextlib
import http.client
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from benchmarks.peers import servers
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Peer, Service
from benchmarks.peers.reading import Clock, Task, run_action

PIECE_BYTES = 1 << 20


class Nginx(Peer):
    name = "nginx"
    title = "nginx, sendfile"
    programs = (servers.NGINX,)
    delivers_images = False
    decodes = False
    defaults: ClassVar[Mapping[str, Any]] = {"streams": 8}

    @property
    def python(self) -> Path:
        return self.work.tools.python

    def prepare(self) -> Path:
        return self.work.images.tfrecord()

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        folder = self.work.images.tfrecord()
        with servers.nginx(node, folder, self.work.scratch) as url:
            files = {f"{path.name}": path.stat().st_size for path in sorted(folder.iterdir())}
            yield {"url": url, "files": files}


def read(task: Task) -> None:
    host = urlsplit(task["service"]["url"]).netloc
    files = list(task["service"]["files"].items()) * task["passes"]
    left: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    for file in files:
        left.put(file)
    failures: list[BaseException] = []
    received: list[int] = []  # by piece; appending is atomic

    def fetch() -> None:
        buffer = bytearray(PIECE_BYTES)
        connection = http.client.HTTPConnection(host)
        try:
            while not failures and not clock.is_over():
                try:
                    name, size = left.get_nowait()
                except queue.Empty:
                    return
                connection.request("GET", f"/{name}")
                response = connection.getresponse()
                came = 0
                while piece := response.readinto(buffer):
                    came += piece
                    received.append(piece)
                    if clock.is_over():
                        return
                if response.status != 200 or came != size:
                    raise OSError(f"{name}: HTTP {response.status}, {came} bytes of {size}")
        except OSError as error:
            failures.append(error)
        finally:
            connection.close()

    class Fetch(Clock):
        def is_over(self) -> bool:
            if self.bound_s is not None and time.monotonic() > self.begin_s + self.bound_s:
                self.is_cut = True
            return self.is_cut

        def result(self) -> dict[str, Any]:
            return {"bytes": sum(received), "seconds": self.end_s - self.begin_s}

    clock = Fetch(task)
    with clock:
        threads = [threading.Thread(target=fetch) for _ in range(task["settings"]["streams"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


if __name__ == "__main__":
    run_action(read=read)
