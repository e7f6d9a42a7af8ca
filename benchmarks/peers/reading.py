# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What every reader does with the images that it is given: count, touch, and check them.

Where images are decoded, the trainer gets pictures and beside them the images' numbers. A picture
is the whole image as an RGB array of uint8, SIDE x SIDE. Each peer decodes with what its users
decode with, so that pictures of one image differ a little: decoders round differently, and scale
with different filters. What is compared is therefore a sketch of each, the mean colours of its four
quarters, which tells one image from another, and red from blue.

A reader is a process of its own, in the environment of its peer. It runs

    with Recorder(task) as recorder:  # the clock runs inside
        for batch in ...:
            recorder.add(batch)  # or add_pictures

and prints one JSON object at the end. With `"handshake": true` in the task it prints `ready` before
its clock starts and `done` after it has stopped, and waits for a line each time: the harness reads
counters of processor time then, of both nodes, which so hold neither imports nor the checking.
"""

import itertools
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

# An image begins as a JPEG file does (SOI), with a comment segment of 8 bytes: its number.
NUMBER_PREFIX = b"\xff\xd8\xff\xfe\x00\x0a"
NUMBER_AT = len(NUMBER_PREFIX)
NUMBER_END = NUMBER_AT + 8

SIDE = 224
SHAPE = (SIDE, SIDE, 3)
SKETCHED = 8  # of the rows and the columns every eighth goes into the sketch
SKETCH_TOLERANCE = 4.0  # of 255

Task = Mapping[str, Any]


class WrongImagesError(Exception):
    """The images that came are not those that were to come."""


class Clock(ABC):
    """The time of a reader: a `with` block, at whose end it prints what `result` gives."""

    def __init__(self, task: Task) -> None:
        self._handshake = bool(task.get("handshake"))
        self.begin_s = self.end_s = 0.0
        # Results have a stream of their own: what libraries print goes to standard error.
        self._results = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """What has come in how much time; called when the clock has stopped."""

    def __enter__(self) -> Self:
        self._synchronize("ready")
        self.begin_s = time.perf_counter()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exception is not None:
            return
        self.end_s = time.perf_counter()
        self._synchronize("done")
        result = self.result()
        self._results.write(json.dumps(result) + "\n")
        self._results.flush()

    def _synchronize(self, word: str) -> None:
        if self._handshake:
            self._results.write(word + "\n")
            self._results.flush()
            if not sys.stdin.readline():
                raise SystemExit("the harness has ended")


class Recorder(Clock):
    """Counts images, adds up all bytes of each, and afterwards compares them with the catalogue."""

    def __init__(self, task: Task) -> None:
        import numpy as np

        super().__init__(task)
        self._np = np
        self._passes = int(task["passes"])
        catalogue = json.loads(Path(task["catalogue"]).read_text())
        self._expected_bytes = np.array(catalogue["bytes"], np.int64)
        self._expected_sums = np.array(catalogue["sums"], np.uint8)
        self._expected_sketches: Any = None
        if task.get("decode"):
            self._expected_sketches = np.array(json.loads(Path(task["sketches"]).read_text()))
        self._numbers: list[int] = []
        self._bytes: list[int] = []
        self._sums: list[int] = []
        self._sketches: list[list[float]] = []
        self._batches = 0
        self._pass_ends: list[float] = []
        self._next_pass_end = len(self._expected_bytes)
        self._first_batch: float | None = None

    def add(self, images: Iterable[Any]) -> None:
        """A batch in the trainer's hands: every byte of every image is read, once.

        An image is any object with the buffer interface. Its bytes are added up modulo 256, which
        NumPy does at memory speed whatever the alignment.
        """
        np = self._np
        for image in images:
            data = np.frombuffer(image, np.uint8)
            self._numbers.append(number_of(data))
            self._bytes.append(data.size)
            self._sums.append(int(np.add.reduce(data, dtype=np.uint8)))
        self._count_batch()

    def add_pictures(self, numbers: Iterable[int], pictures: Iterable[Any]) -> None:
        """The same for a batch that was decoded: arrays of SHAPE, and the numbers of the images."""
        np = self._np
        for number, picture in zip(numbers, pictures, strict=True):
            data = np.asarray(picture)
            if data.shape != SHAPE or data.dtype != np.uint8:
                raise WrongImagesError(f"a picture of {data.dtype} {data.shape} came")
            self._numbers.append(int(number))
            self._sums.append(int(np.add.reduce(data.reshape(-1), dtype=np.uint8)))
            self._sketches.append(sketch(data))
        self._count_batch()

    def _count_batch(self) -> None:
        self._batches += 1
        now = time.perf_counter()
        if self._first_batch is None:
            self._first_batch = now
        while len(self._numbers) >= self._next_pass_end:
            self._pass_ends.append(now)
            self._next_pass_end += len(self._expected_bytes)

    def result(self) -> dict[str, Any]:
        self._check()
        ends = [self.begin_s, *self._pass_ends]
        assert self._first_batch is not None
        return {
            "images": len(self._numbers),
            "batches": self._batches,
            "bytes": int(self._expected_bytes.sum()) * self._passes,
            "checksum": sum(self._sums) if self._expected_sketches is None else None,
            "seconds": self._pass_ends[-1] - self.begin_s,
            "first_batch_s": self._first_batch - self.begin_s,
            "epoch_seconds": [b - a for a, b in itertools.pairwise(ends)],
        }

    def _check(self) -> None:
        """Every image of every pass came once, whole and unchanged."""
        np = self._np
        total = len(self._expected_bytes)
        numbers = np.array(self._numbers, np.uint64)
        if len(numbers) != total * self._passes:
            raise WrongImagesError(f"{len(numbers)} images came instead of {total * self._passes}")
        if (numbers >= total).any():
            raise WrongImagesError("an image came that is not in the data set")
        places = numbers.astype(np.int64)
        times = np.bincount(places, minlength=total)
        if (times != self._passes).any():
            number = int(np.argmax(times != self._passes))
            raise WrongImagesError(
                f"image {number} came {times[number]} times in {self._passes} passes"
            )
        self._check_contents(places)

    def _check_contents(self, places: Any) -> None:
        np = self._np
        if self._expected_sketches is not None:
            if len(self._sketches) != len(places):
                raise WrongImagesError("images came that nobody had decoded")
            off = np.abs(self._expected_sketches[places] - self._sketches).max(axis=1)
            if (off > SKETCH_TOLERANCE).any():
                raise WrongImagesError(
                    f"image {places[np.argmax(off)]} came as another picture, or in other colours: "
                    f"quarters are {off.max():.1f} of 255 away from what they should be"
                )
            return
        changed = (self._expected_bytes[places] != self._bytes) | (
            self._expected_sums[places] != np.array(self._sums, np.uint8)
        )
        if changed.any():
            raise WrongImagesError(f"image {places[np.argmax(changed)]} came with other bytes")


def number_of(image: Any) -> int:
    """The number that an encoded image carries; `image` has the buffer interface."""
    return int.from_bytes(memoryview(image)[NUMBER_AT:NUMBER_END], "little")


def sketch(picture: Any) -> list[float]:
    """The mean colours of a picture's quarters, by a sample of its pixels."""
    sample = picture[SKETCHED // 2 :: SKETCHED, SKETCHED // 2 :: SKETCHED]
    half = SIDE // SKETCHED // 2
    means: list[float] = sample.reshape(2, half, 2, half, 3).mean(axis=(1, 3)).ravel().tolist()
    return means


def run_action(**actions: Callable[[Task], None]) -> None:
    """The main program of a peer's file: `python -m FILE ACTION TASK`, the task being JSON."""
    actions[sys.argv[1]](json.loads(sys.argv[2]))
