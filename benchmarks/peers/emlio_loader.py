# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO itself, by the same rules: `emlio serve`, read by emlio.Loader and by `emlio pull`.

Settings. shuffle=full, unlike the peers, which read in stored order; all other values are EMLIO's
defaults (null). Records are images; the loader hands them out as they are (raw mode). Every
checksum is verified. Passes are epochs: nothing has to be renamed, since EMLIO keeps no cache.

`emlio pull` is C++ from end to end and throws images away once their checksums, for which it reads
every byte, are verified; --check-once sees to each having come once. Its seconds begin when it is
connected, and its processor time is that of the whole process.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.node import Node
from benchmarks.peers.peer import BATCH_SIZE, Marks, Peer, Service, Tools, run_command
from benchmarks.peers.reading import Recorder, Task, run_action
from benchmarks.processes import Background, BenchmarkError, command_line, run_json


class Emlio(Peer):
    """The storage side, common to both readers."""

    defaults: ClassVar[Mapping[str, Any]] = {
        "shuffle": "full",
        "streams": None,
        "prefetch_mb": None,
    }

    @classmethod
    def missing(cls, tools: Tools) -> list[str]:
        if tools.emlio.exists():
            return []
        return [f"{tools.emlio} (scripts/setup makes it; or give --emlio)"]

    @classmethod
    def versions(cls, tools: Tools) -> dict[str, str]:
        said = subprocess.run([tools.emlio, "--version"], capture_output=True, text=True)
        return {"emlio": said.stdout.strip()}

    @property
    def python(self) -> Path:
        return self.work.tools.python

    @property
    def _index(self) -> Path:
        return self.work.images.root / "index"

    def prepare(self) -> Path:
        shards = self.work.images.tfrecord()
        command = command_line(
            *(self.work.tools.emlio, "index", f"{shards}/*.tfrecord"),
            *("--index-dir", self._index, "--json", "-"),
        )
        run_json(command)
        return shards

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        ready = self.work.scratch / "emlio-ready"
        ready.unlink(missing_ok=True)
        command = command_line(
            *(self.work.tools.emlio, "serve", f"images={self.work.images.tfrecord()}/*.tfrecord"),
            *("--bind", f"{node.address}:0", "--insecure", "--index-dir", self._index),
            *("--ready-file", ready),
        )
        log = self.work.scratch / "emlio-serve.log"
        with Background(command, log, popen=node.popen) as daemon:
            yield {"url": f"{daemon.wait_until_ready(ready)}/images"}


class EmlioLoader(Emlio):
    name = "emlio"
    title = "EMLIO, emlio.Loader"


class EmlioPull(Emlio):
    name = "emlio-pull"
    title = "EMLIO, emlio pull"

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        options = [
            (f"--{name.replace('_', '-')}", value)
            for name, value in self.settings.items()
            if value is not None
        ]
        command = command_line(
            *(self.work.tools.emlio, "pull", service["url"], "--batch-size", BATCH_SIZE),
            *("--epochs", self.work.passes, "--check-once", "--json", "-", *options),
        )
        log = self.work.scratch / "emlio-pull.log"
        pulled = json.loads(run_command(node, command, log, self.work.limit_s, marks))
        images = self.work.images
        wanted = images.total_bytes * self.work.passes
        if pulled["payload_bytes"] != wanted:
            raise BenchmarkError(f"{pulled['payload_bytes']} bytes came instead of {wanted}")
        return {
            "images": pulled["records"],
            "batches": pulled["batches"],
            "bytes": pulled["payload_bytes"],
            "seconds": pulled["seconds"],
            "first_batch_s": pulled["time_to_first_batch_s"],
            "epoch_seconds": [epoch["seconds"] for epoch in pulled["epochs"]],
        }


def read(task: Task) -> None:
    import emlio

    options = {name: value for name, value in task["settings"].items() if value is not None}
    with Recorder(task) as recorder:
        loader = emlio.Loader(
            task["service"]["url"],
            batch_size=task["batch_size"],
            epochs=task["passes"],
            **options,
        )
        for _ in range(task["passes"]):
            for batch in loader:
                recorder.add(batch.records)


if __name__ == "__main__":
    run_action(read=read)
