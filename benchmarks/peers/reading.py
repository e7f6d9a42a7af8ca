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

With `"bound_s"` in the task a run ends so long after its first batch, unless everything has come by
then. The loop is left wherever it is, by TimeIsOver: readers need no code for it.
"""

import itertools
import json
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
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


class TimeIsOver(BaseException):
    """Leaves the reading loop when a run has lasted as long as it may."""


class Clock(ABC):
    """The time of a reader: a `with` block, at whose end it prints what `result` gives.

    Its times are those of the system's monotonic clock, which the harness reads too.
    """

    def __init__(self, task: Task) -> None:
        self._handshake = bool(task.get("handshake"))
        bound_s = task.get("bound_s")
        self.bound_s: float | None = None if bound_s is None else float(bound_s)
        self.is_cut = False  # ended by its time
        self._has_stopped = False
        self.begin_s = self.end_s = 0.0
        # Results have a stream of their own: what libraries print goes to standard error.
        self._results = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """What has come in how much time; called when the clock has stopped."""

    def __enter__(self) -> Self:
        self._synchronize("ready")
        self.begin_s = time.monotonic()
        return self

    def stop(self) -> None:
        """The end of the time that counts; what follows in the `with` block is clearing up."""
        if not self._has_stopped:
            self._has_stopped = True
            self.end_s = time.monotonic()
            self._synchronize("done")

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if exception is not None and not isinstance(exception, TimeIsOver):
            return False
        self.stop()
        ended = {"ended_by": "seconds" if self.is_cut else "bytes", "end_s": self.end_s}
        self._results.write(json.dumps({**ended, **self.result()}) + "\n")
        self._results.flush()
        return True

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
        self._in_order = bool(task.get("in_order"))
        self._is_adding = False
        self._last_batch = 0.0
        self._pass_ends: list[float] = []
        self._next_pass_end = len(self._expected_bytes)
        self._first_batch: float | None = None

    def add(self, images: Iterable[Any]) -> None:
        """A batch in the trainer's hands: every byte of every image is read, once.

        An image is any object with the buffer interface. Its bytes are added up modulo 256, which
        NumPy does at memory speed whatever the alignment.
        """
        np = self._np
        self._is_adding = True
        for image in images:
            data = np.frombuffer(image, np.uint8)
            self._numbers.append(number_of(data))
            self._bytes.append(data.size)
            self._sums.append(int(np.add.reduce(data, dtype=np.uint8)))
        self._count_batch()

    def add_pictures(self, numbers: Iterable[int], pictures: Iterable[Any]) -> None:
        """The same for a batch that was decoded: arrays of SHAPE, and the numbers of the images."""
        np = self._np
        self._is_adding = True
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
        self._last_batch = now = time.monotonic()
        if self._first_batch is None:
            self._first_batch = now
            if self.bound_s is not None:
                signal.signal(signal.SIGALRM, self._on_time_over)
                signal.setitimer(signal.ITIMER_REAL, self.bound_s)
        while len(self._numbers) >= self._next_pass_end:
            self._pass_ends.append(now)
            self._next_pass_end += len(self._expected_bytes)
        self._is_adding = False
        if self.is_cut:
            self._cut()

    def _on_time_over(self, number: int, frame: FrameType | None) -> None:
        """Leaves the loop, which may be waiting for a batch for a long time yet.

        A loop that waits in a library which looks at no signals is left once it has the batch:
        Python calls this before the batch can be added.
        """
        if len(self._numbers) >= len(self._expected_bytes) * self._passes:
            return
        self.is_cut = True
        if not self._is_adding:
            self._cut()

    def _cut(self) -> None:
        self.stop()
        raise TimeIsOver

    def result(self) -> dict[str, Any]:
        places = self._check()
        ends = [self.begin_s, *self._pass_ends]
        if self._first_batch is None:
            raise WrongImagesError("no image came")
        return {
            "images": len(self._numbers),
            "batches": self._batches,
            "bytes": int(self._expected_bytes[places].sum()),
            "checksum": sum(self._sums) if self._expected_sketches is None else None,
            # Where a run was cut, nobody knows when the next batch would have come.
            "seconds": self._last_batch - self.begin_s,
            "end_s": self._last_batch,
            "first_batch_s": self._first_batch - self.begin_s,
            "epoch_seconds": [b - a for a, b in itertools.pairwise(ends)],
        }

    def _check(self) -> Any:
        """Every image of every pass came once, whole and unchanged; their numbers as they came.

        Of a run that was cut none came more often than it is read, and where passes follow one
        another, once in each of them, and in the one that was begun at most once.
        """
        np = self._np
        total = len(self._expected_bytes)
        numbers = np.array(self._numbers, np.uint64)
        if not self.is_cut and len(numbers) != total * self._passes:
            raise WrongImagesError(f"{len(numbers)} images came instead of {total * self._passes}")
        if (numbers >= total).any():
            raise WrongImagesError("an image came that is not in the data set")
        places = numbers.astype(np.int64)
        times = np.bincount(places, minlength=total)
        wrong = (times > self._passes) if self.is_cut else (times != self._passes)
        if wrong.any():
            number = int(np.argmax(wrong))
            raise WrongImagesError(
                f"image {number} came {times[number]} times in {self._passes} passes"
            )
        for begin in range(0, len(places), total) if self._in_order else ():
            times = np.bincount(places[begin : begin + total], minlength=total)
            if (times > 1).any():
                number = int(np.argmax(times > 1))
                raise WrongImagesError(
                    f"image {number} came {times[number]} times in pass {begin // total + 1}"
                )
        self._check_contents(places)
        return places

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
