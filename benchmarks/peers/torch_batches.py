# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""How images, or the pictures that workers made of them, travel from torch's worker processes.

A batch is one uint8 tensor and the images' lengths: it goes through shared memory, whereas a list
of bytes would be pickled into a pipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.peers.decoding import decode_batch
from benchmarks.peers.reading import Recorder

if TYPE_CHECKING:
    import torch

PREFETCH_FACTOR = 4  # batches that a worker reads ahead; torch's default of 2 was never quicker
Packed = tuple["torch.Tensor", list[int]]


def collate(images: Sequence[bytes], *, decode: bool) -> Packed:
    """For collate_fn, in workers: a batch of images, or of pictures with the images' numbers."""
    import torch

    if not decode:
        return pack(images)
    numbers, pictures = decode_batch(images)
    return torch.from_numpy(pictures), list(numbers)


def record(recorder: Recorder, batch: Packed) -> None:
    """Gives a batch that `collate` made to the recorder."""
    tensor, numbers = batch
    if tensor.ndim == 1:
        recorder.add(unpack(batch))
    else:
        recorder.add_pictures(numbers, tensor.numpy())


def pack(images: Sequence[bytes]) -> Packed:
    """For collate_fn: a batch in one tensor."""
    import torch

    joined = bytearray().join(images)
    return torch.frombuffer(joined, dtype=torch.uint8), [len(image) for image in images]


def unpack(batch: Packed) -> Iterator[Any]:
    """The images of a packed batch, as views of it."""
    tensor, lengths = batch
    array = tensor.numpy()
    at = 0
    for length in lengths:
        yield array[at : at + length]
        at += length


def worker_options(workers: int) -> dict[str, Any]:
    """The options of a DataLoader that depend on the number of worker processes."""
    if workers == 0:
        return {"num_workers": 0}
    return {"num_workers": workers, "prefetch_factor": PREFETCH_FACTOR}
