# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO itself, by the same rules: `emlio serve`, read by emlio.Loader and by `emlio pull`.

Settings. shuffle=full, unlike the peers, which read in stored order; all other values are EMLIO's
defaults (null). Records are images; the loader hands them out as they are (raw mode). Every
checksum is verified. Passes are epochs: nothing has to be renamed, since EMLIO keeps no cache.

Decoding, of shards of tf.train.Example: decoder="torch" is emlio.torch.DataLoader with as many
workers as there are processors and Pillow in them, "dali" a pipeline fed by emlio.dali.source
(no_copy, as many threads). Without a GPU the former needs a fifth less processor time (34 and
43 s/GB), since scaling is dear in DALI: 1.2 ms of an image's 4.2 are decoding; Pillow needs 2.4 ms
for both, and worker processes some more.

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

from benchmarks.peers.decoding import dali_outputs, from_dali, processors
from benchmarks.peers.node import Node
from benchmarks.peers.peer import BATCH_SIZE, Marks, Peer, Service, Tools, run_command
from benchmarks.peers.reading import Recorder, Task, run_action
from benchmarks.peers.torch_batches import Packed, collate, record, worker_options
from benchmarks.processes import Background, BenchmarkError, command_line, run_json

ENCODED = "image/encoded"


class Emlio(Peer):
    """The storage side, common to both readers."""

    in_order = True
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

    @property
    def _shards(self) -> Path:
        images = self.work.images
        return images.example(self.work.tools.emlio) if self.work.decode else images.tfrecord()

    def prepare(self) -> Path:
        shards = self._shards
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
            *(self.work.tools.emlio, "serve", f"images={self._shards}/*.tfrecord"),
            *("--bind", f"{node.address}:0", "--insecure", "--index-dir", self._index),
            *("--ready-file", ready),
        )
        log = self.work.scratch / "emlio-serve.log"
        with Background(command, log, popen=node.popen) as daemon:
            yield {"url": f"{daemon.wait_until_ready(ready)}/images"}


class EmlioLoader(Emlio):
    name = "emlio"
    title = "EMLIO, emlio.Loader"
    defaults: ClassVar[Mapping[str, Any]] = {**Emlio.defaults, "decoder": "torch"}


class EmlioPull(Emlio):
    name = "emlio-pull"
    title = "EMLIO, emlio pull"
    decodes = False

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
        output = run_command(node, command, log, self.work, marks)
        pulled, images = json.loads(output.text), self.work.images
        wanted, checked = images.total_bytes * self.work.passes, pulled["check_once"]
        if not output.is_cut and pulled["payload_bytes"] != wanted:
            raise BenchmarkError(f"{pulled['payload_bytes']} bytes came instead of {wanted}")
        if checked["repeated"] or checked["unexpected"]:  # of a run that was cut, too
            raise BenchmarkError(f"records came that were not to come: {checked}")
        return {
            "ended_by": output.ended_by,
            "images": pulled["records"],
            "batches": pulled["batches"],
            "bytes": pulled["payload_bytes"],
            "seconds": pulled["seconds"],
            "first_batch_s": pulled["time_to_first_batch_s"],
            "epoch_seconds": [
                epoch["seconds"] for epoch in pulled["epochs"] if epoch["records"] == images.count
            ],
        }


def read(task: Task) -> None:
    options = {name: value for name, value in task["settings"].items() if value is not None}
    if task["decode"]:
        read_decoded(task, options)
        return
    import emlio

    del options["decoder"]
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


def read_decoded(task: Task, options: dict[str, Any]) -> None:
    decoder = options.pop("decoder")
    options |= {
        "batch_size": task["batch_size"],
        "epochs": task["passes"],
        "features": {ENCODED: "bytes"},
    }
    if decoder not in DECODERS:
        raise ValueError(f"no decoder {decoder!r}; there are {', '.join(DECODERS)}")
    DECODERS[decoder](task, options)


def decoded_by_workers(task: Task, options: Mapping[str, Any]) -> None:
    import torch

    import emlio.torch

    torch.set_num_threads(1)

    def decode(item: Mapping[str, Any]) -> Packed:
        return collate(item[ENCODED], decode=True)

    with Recorder(task) as recorder:
        data = emlio.torch.IterableDataset(task["service"]["url"], transform=decode, **options)
        loader = emlio.torch.DataLoader(data, **worker_options(processors()))
        for _ in range(task["passes"]):
            for batch in loader:
                record(recorder, batch)


def decoded_by_dali(task: Task, options: Mapping[str, Any]) -> None:
    from nvidia.dali import fn, pipeline_def

    import emlio
    import emlio.dali

    with Recorder(task) as recorder:
        loader = emlio.Loader(task["service"]["url"], **options)

        @pipeline_def(  # type: ignore[untyped-decorator]
            batch_size=task["batch_size"], num_threads=processors(), device_id=None
        )
        def pipeline() -> Any:
            source = emlio.dali.source(loader, ENCODED)
            return dali_outputs(fn.external_source(source=source, no_copy=True))

        built = pipeline()
        built.build()
        for _ in range(task["passes"]):
            with contextlib.suppress(StopIteration):
                while True:
                    recorder.add_pictures(*from_dali(*built.run()))
            built.reset()


DECODERS = {"torch": decoded_by_workers, "dali": decoded_by_dali}


if __name__ == "__main__":
    run_action(read=read)
