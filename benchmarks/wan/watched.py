# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""emlio.Loader, read for a given time and watched: when each batch came, and whether it was right.

A batch is right when it is the next of the plan, no record of the epoch has come before, and every
record is the image of its number, whole (the catalogue of benchmarks/peers has numbers and sums).
Every epoch that is begun is read to its end.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.emlio_loader import EmlioLoader
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Marks, Service, Work
from benchmarks.peers.reading import Clock, Task, WrongImagesError, number_of, run_action

EPOCHS = 1 << 20  # more than are read: so that there always is a next one to read ahead


class WatchedLoader(EmlioLoader):
    """The loader, and its watcher at the other end.

    Args:
        started: called right before the first batch is asked for.
        seconds: how long it reads; then to the end of the epoch.
        mb_per_s: the consumer takes no more than that; 0: as it comes.
    """

    name = "emlio-watched"
    title = "EMLIO, emlio.Loader, watched"
    defaults: ClassVar[Mapping[str, Any]] = {**EmlioLoader.defaults, "batch_size": 16}

    def __init__(
        self,
        work: Work,
        settings: Mapping[str, Any],
        *,
        started: Callable[[], None],
        seconds: float,
        mb_per_s: float,
    ) -> None:
        super().__init__(work, settings)
        self._started = started
        self._more = {"seconds": seconds, "mb_per_s": mb_per_s}

    def task(self, **more: Any) -> dict[str, Any]:
        return super().task(**more, **self._more)

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        def mark(word: str) -> None:
            marks(word)
            if word == "ready":
                self._started()

        return self.run_reader(node, service, mark)


class Watch(Clock):
    """What came, and when."""

    def __init__(self, task: Task) -> None:
        import numpy as np

        super().__init__(task)
        self._np = np
        catalogue = json.loads(Path(task["catalogue"]).read_text())
        self._bytes = np.array(catalogue["bytes"], np.int64)
        self._sums = np.array(catalogue["sums"], np.uint8)
        self._came = np.zeros(len(self._bytes), np.bool_)
        self._arrivals: list[tuple[float, int]] = []
        self._records = 0
        self._epochs = 0
        self._next_step = 0

    def add(self, batch: Any) -> None:
        np = self._np
        if (batch.epoch, batch.step) != (self._epochs, self._next_step):
            raise WrongImagesError(
                f"epoch {batch.epoch}, step {batch.step} came instead of "
                f"epoch {self._epochs}, step {self._next_step}"
            )
        self._next_step += 1
        for number, record in zip(batch.indices.tolist(), batch.records, strict=True):
            if self._came[number]:
                raise WrongImagesError(f"image {number} came twice in epoch {self._epochs}")
            self._came[number] = True
            total = np.add.reduce(record, dtype=np.uint8)
            if (
                number_of(record) != number
                or record.size != self._bytes[number]
                or total != self._sums[number]
            ):
                raise WrongImagesError(f"image {number} came with other bytes")
        self._records += len(batch)
        self._arrivals.append((time.monotonic(), batch.payload_bytes))

    def end_epoch(self) -> None:
        if not self._came.all():
            missing = len(self._came) - int(self._came.sum())
            raise WrongImagesError(f"{missing} images did not come in epoch {self._epochs}")
        self._came[:] = False
        self._epochs += 1
        self._next_step = 0

    def result(self) -> dict[str, Any]:
        end_s = self._arrivals[-1][0]
        return {
            "images": self._records,
            "epochs": self._epochs,
            "batches": len(self._arrivals),
            "bytes": sum(size for _, size in self._arrivals),
            "seconds": end_s - self.begin_s,
            "first_batch_s": self._arrivals[0][0] - self.begin_s,
            "begin_s": self.begin_s,  # of the system's monotonic clock, as those of batches
            "arrivals": self._arrivals,
        }


def read(task: Task) -> None:
    import emlio

    options = {name: value for name, value in task["settings"].items() if value is not None}
    del options["decoder"]
    bytes_per_s = task["mb_per_s"] * 1e6
    with Watch(task) as watch:
        loader = emlio.Loader(task["service"]["url"], epochs=EPOCHS, **options)
        taken = 0
        while time.monotonic() < watch.begin_s + task["seconds"]:
            for batch in loader:
                watch.add(batch)
                taken += batch.payload_bytes
                if bytes_per_s:
                    due_s = watch.begin_s + taken / bytes_per_s
                    time.sleep(max(0.0, due_s - time.monotonic()))
            watch.end_epoch()
    loader.close()


if __name__ == "__main__":
    run_action(read=read)
