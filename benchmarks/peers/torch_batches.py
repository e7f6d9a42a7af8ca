# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""How encoded images travel from torch's worker processes to the trainer.

A batch is one uint8 tensor and the images' lengths: it goes through shared memory, whereas a list
of bytes would be pickled into a pipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PREFETCH_FACTOR = 4  # batches that a worker reads ahead; torch's default of 2 was never quicker
Packed = tuple["torch.Tensor", list[int]]


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
