# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""WebDataset: tar files over HTTP, from nginx.

Settings. workers=8, each reads every eighth tar file from beginning to end. 1, 4 and 8 were tried:
4 is best at 0 ms on two cores, 8 from 30 ms on. `http://` and `pipe:curl` are the same thing in
WebDataset, a curl for each tar file. Batched inside the workers, as its documentation advises.
Its shard cache was not used: it would only serve later passes.
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import servers
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Peer, Program, Service
from benchmarks.peers.reading import Recorder, Task, run_action
from benchmarks.peers.torch_batches import collate, record, worker_options


class WebDataset(Peer):
    name = "webdataset"
    title = "WebDataset over HTTP"
    environment = "webdataset"
    programs = (servers.NGINX, Program("curl", "curl"))
    defaults: ClassVar[Mapping[str, Any]] = {"workers": 8}

    def prepare(self) -> Path:
        return self.work.images.tar()

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        folder = self.work.images.tar()
        with servers.nginx(node, folder, self.work.scratch) as url:
            yield {"urls": [f"{url}/{path.name}" for path in sorted(folder.iterdir())]}


def read(task: Task) -> None:
    import torch
    import webdataset

    torch.set_num_threads(1)
    urls = task["service"]["urls"] * task["passes"]
    batches = (
        webdataset.WebDataset(urls, shardshuffle=False, handler=webdataset.reraise_exception)
        .to_tuple("jpg")
        .map(lambda sample: sample[0])
        .batched(
            task["batch_size"],
            collation_fn=functools.partial(collate, decode=task["decode"]),
            partial=True,
        )
    )
    # A worker without a tar file is an error to WebDataset.
    workers = min(task["settings"]["workers"], len(urls))
    with Recorder(task) as recorder:
        for batch in webdataset.WebLoader(batches, batch_size=None, **worker_options(workers)):
            record(recorder, batch)


if __name__ == "__main__":
    run_action(read=read)
