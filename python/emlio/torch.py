# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO for PyTorch: a data set for `torch.utils.data.DataLoader`.

dataset = emlio.torch.IterableDataset("tcp://storage:7070/imagenet", batch_size=64,
                                      features={"image/encoded": "bytes", "label": "int64"})
for batch in torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=0):
    images, labels = batch["image/encoded"], batch["label"]
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed
import torch.utils.data

from emlio import _loader
from emlio._core import Batch, InvalidArgumentError, PlanMismatchError, Ragged
from emlio._loader import Loader, Source, StateDict, _refuse_worker_process

__all__ = ["VALID", "IterableDataset", "RaggedTensor", "to_tensors"]

VALID = _loader.VALID
"""Key of the mask that tells records from padding, in items of a loader with tail="pad"."""


class RaggedTensor(NamedTuple):
    """A column with any number of values a record.

    Attributes:
        values: All values, record after record: int64 or float32, shape (n,).
        row_offsets: int64, shape (B + 1,): record i has values[row_offsets[i]:row_offsets[i+1]].
    """

    values: torch.Tensor
    row_offsets: torch.Tensor


def to_tensors(batch: Batch, *, with_valid: bool = False) -> dict[str, Any]:
    """The columns of a batch by feature name, numbers as tensors that share the batch's memory.

    int64 and float columns are tensors of shape (B,) or (B, k), or a RaggedTensor; bytes stay what
    they are in `Batch`. For a feature that may be absent ("label": "int64?"), the name followed by
    "?" is a bool tensor of shape (B,) that tells where it is present. `with_valid` adds another
    one, under the key `VALID`: False where a record only pads the batch.
    """
    columns: dict[str, Any] = {}
    for name in batch.keys():  # noqa: SIM118 (a batch has the length of its records)
        columns[name] = _to_tensor(batch[name])
        if batch.is_optional(name):
            columns[f"{name}?"] = torch.from_numpy(batch.present(name).copy())
    if with_valid:
        columns[VALID] = torch.arange(len(batch)) < batch.valid
    return columns


def _to_tensor(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return torch.from_numpy(column)
    if isinstance(column, Ragged) and isinstance(column.values, np.ndarray):
        # The offsets are read-only, which torch does not know.
        offsets = torch.from_numpy(column.row_offsets.copy())
        return RaggedTensor(torch.from_numpy(column.values), offsets)
    return column


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Batches for a DataLoader with `batch_size=None` and `num_workers=0`.

    Each `iter` is one pass, as of `emlio.Loader`. By default an item is a dict (see `to_tensors`),
    or the `Batch` itself when no features are asked for; with tail="pad" the dict has the mask
    `VALID` too. With `state_dict` and `load_state_dict` it fits torchdata's StatefulDataLoader.
    More workers are refused: each would read all data.

    Where torch.distributed is initialised, rank and world size come from it, and the ranks compare
    their plans at the first pass.

    Args:
        source: A loader, or sources for a new one (see `emlio.Loader`).
        convert: Whether to turn batches into dicts of tensors; False leaves them as they are.
        transform: Called with each item; what it returns is yielded instead.
        options: Of the new loader.

    Raises:
        InvalidArgumentError: Options beside a loader; and what `emlio.Loader` raises.
    """

    def __init__(
        self,
        source: Loader | Source | Sequence[Source],
        *,
        convert: bool = True,
        transform: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if isinstance(source, Loader):
            if options:
                raise InvalidArgumentError(f"the loader has its options already: {list(options)}")
            self.loader = source
        else:
            if "rank" not in options and "world_size" not in options and _distributed():
                options["rank"] = torch.distributed.get_rank()
                options["world_size"] = torch.distributed.get_world_size()
            self.loader = Loader(source, **options)
        self._convert = convert
        self._pads = self.loader._options["tail"] == "pad"
        self._transform = transform
        self._compared = False

    def __iter__(self) -> Iterator[Any]:
        _refuse_worker_process()
        self._compare_plans()
        # Not a generator: the pass begins here, and its errors are raised here.
        return map(self._item, iter(self.loader))

    def _item(self, batch: Batch) -> Any:
        item: Any = batch
        if self._convert and batch.keys():
            item = to_tensors(batch, with_valid=self._pads)
        return item if self._transform is None else self._transform(item)

    def __len__(self) -> int:
        """Number of batches of a whole epoch."""
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """See `emlio.Loader.set_epoch`."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> StateDict:
        """See `emlio.Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `emlio.Loader.load_state_dict`."""
        self.loader.load_state_dict(state)

    def _compare_plans(self) -> None:
        # A collective call, so made only where every rank surely takes part: by a loader that
        # shares its data with exactly these ranks.
        if self._compared or not _distributed():
            return
        world_size = torch.distributed.get_world_size()
        if world_size == 1 or self.loader.world_size != world_size:
            return
        mine = (self.loader.plan_hash, self.loader.rank)
        every: list[Any] = [None] * world_size
        torch.distributed.all_gather_object(every, mine)
        odd = [rank for rank, (plan_hash, _) in enumerate(every) if plan_hash != every[0][0]]
        if odd:
            raise PlanMismatchError(
                f"ranks {odd} do not read what rank 0 reads (plan {every[0][0]}): sources, seed, "
                "shuffle, global batch size and tail must be the same on all ranks"
            )
        if sorted(rank for _, rank in every) != list(range(world_size)):
            raise PlanMismatchError(
                f"the loaders' ranks are {[rank for _, rank in every]}: each must occur once"
            )
        self._compared = True


def _distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
