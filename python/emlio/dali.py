# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO for NVIDIA DALI: a source for `fn.external_source`. Needs no DALI itself.

images, labels = fn.external_source(
    source=emlio.dali.source(loader, ["image/encoded", "label"]), num_outputs=2)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from emlio import _loader
from emlio._core import Batch, BytesColumn, InvalidArgumentError
from emlio._loader import Loader

__all__ = ["VALID", "source"]

VALID = _loader.VALID
"""Name of the output that tells records from padding; see `source`."""


def source(loader: Loader, names: str | Sequence[str]) -> Callable[[], Any]:
    """Makes a callable that returns the next batch in the form DALI takes.

    At the end of an epoch it raises StopIteration, which `Pipeline.run` passes on; after
    `Pipeline.reset` (DALI's iterators call it with `auto_reset`) the next epoch begins. Set the
    pipeline's `max_batch_size` to the loader's batch size at least.

    DALI asks for batches ahead of what it hands out, so the loader's `state_dict` is ahead by up to
    `prefetch_queue_depth` batches while an epoch runs; between epochs it is exact.

    Args:
        loader: Where batches come from. It must not be iterated by somebody else meanwhile.
        names: The features to hand over, one output each. `VALID` among them is a bool for each
            record, False where it only pads the batch (tail="pad"). For a single string the
            callable returns one output instead of a list: leave `num_outputs` out then.

    Returns:
        The callable. Each output is an array of shape (B,) or (B, k) where all records have equal
        shapes, else a list of B arrays; bytes are a list of DLPack capsules, uint8 in one
        dimension, that share the batch's memory. `fn.external_source(..., no_copy=True)` uses
        that memory as it is and keeps it for as long as it needs it.

    Raises:
        InvalidArgumentError: There are no names.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise InvalidArgumentError("name at least one feature to hand to DALI")
    batches: Iterator[Batch] | None = None

    def next_batch() -> Any:
        nonlocal batches
        if batches is None:
            batches = iter(loader)
        try:
            batch = next(batches)
        except StopIteration:
            batches = None
            raise
        outputs = [_samples(batch, name) for name in wanted]
        return outputs[0] if isinstance(names, str) else outputs

    return next_batch


def _samples(batch: Batch, name: str) -> Any:
    if name == VALID:
        return np.arange(len(batch)) < batch.valid
    column = batch[name]
    if isinstance(column, BytesColumn):
        # DALI takes capsules faster than arrays, and its threads let go of them without the GIL.
        return column.to_dlpack()
    return column if isinstance(column, np.ndarray) else list(column)
