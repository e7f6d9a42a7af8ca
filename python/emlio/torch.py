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
from emlio._core import (
    Batch,
    InternalError,
    InvalidArgumentError,
    PlanMismatchError,
    Ragged,
    UnsupportedError,
)
from emlio._loader import Loader, Position, Source, StateDict, _refuse_worker_process

__all__ = ["VALID", "DataLoader", "IterableDataset", "RaggedTensor", "to_tensors"]

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
    torch's own loaders can have no worker processes, each would read all data; the `DataLoader` of
    this module can.

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
        # Where the pass starts that worker processes started now shall read.
        self._worker_start: Position | None = None

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None and self._worker_start is not None:
            return self._dealt_iter(worker, self._worker_start)
        _refuse_worker_process()
        self._compare_plans()
        # Not a generator: the pass begins here, and its errors are raised here.
        return map(self._item, iter(self.loader))

    def _dealt_iter(self, worker: Any, start: Position) -> Iterator["_Dealt"]:
        loader = self.loader._for_worker(worker.id, worker.num_workers, start)
        if loader._next_start(loader._opened()).step >= len(loader):
            return iter(())
        return map(self._dealt_item, iter(loader))

    def _dealt_item(self, batch: Batch) -> "_Dealt":
        item = self._item(batch)
        if isinstance(item, Batch):
            raise UnsupportedError(
                "an emlio.Batch cannot leave a worker process: ask for features, which become "
                "tensors, or give a transform that returns something else"
            )
        return _Dealt(batch.step, item)

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


class DataLoader(torch.utils.data.DataLoader[Any]):
    """torch's DataLoader for an `IterableDataset`, also with worker processes.

    Batches come in the order, and as many, as without workers: each worker receives every
    num_workers-th batch, parses and transforms it. So workers pay off where `transform` is slow and
    holds the GIL. They start anew with every pass and share the limits of the loader (`streams`,
    `prefetch_mb`) among them; `stats` does not count what they do. Columns of bytes arrive as lists
    of uint8 arrays.

    The state is that of the data set, exact at any moment: what was handed out, not what workers
    have read ahead. With order="ready" each worker hands its batches out as they become complete.

    Args:
        dataset: What to read.
        num_workers: Worker processes; 0 for none.
        options: Of torch's DataLoader, for example `multiprocessing_context`, `prefetch_factor`,
            `pin_memory` or `timeout`.

    Raises:
        InvalidArgumentError: An option that has no meaning here.
    """

    dataset: IterableDataset

    def __init__(self, dataset: IterableDataset, *, num_workers: int = 0, **options: Any) -> None:
        if not isinstance(dataset, IterableDataset):
            raise InvalidArgumentError(f"{dataset!r} is no emlio.torch.IterableDataset")
        if options.get("batch_size") is not None:
            raise InvalidArgumentError("batch_size belongs to the data set: its items are batches")
        if options.get("persistent_workers"):
            raise InvalidArgumentError("persistent_workers: workers start anew with every pass")
        collate = _CollateDealt(options.get("collate_fn") or torch.utils.data.default_convert)
        options = {**options, "batch_size": None, "collate_fn": collate}
        super().__init__(dataset, num_workers=num_workers, **options)

    def __iter__(self) -> Any:
        if self.num_workers == 0:
            return super().__iter__()
        dataset = self.dataset
        dataset._compare_plans()
        number, start = dataset.loader._deal_pass()
        dataset._worker_start = start
        try:
            items = super().__iter__()  # the workers start with a copy of the data set as it is now
        finally:
            dataset._worker_start = None
        return _DealtPass(dataset.loader, number, start, items)

    def state_dict(self) -> StateDict:
        """See `emlio.Loader.state_dict`."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `emlio.Loader.load_state_dict`."""
        self.dataset.load_state_dict(state)


class _Dealt(NamedTuple):
    """What a worker process hands over."""

    step: int
    item: Any


class _CollateDealt:
    """Applies a collate_fn to items, whether they come from a worker process or not."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self._collate = collate

    def __call__(self, item: Any) -> Any:
        if isinstance(item, _Dealt):
            return _Dealt(item.step, self._collate(item.item))
        return self._collate(item)


class _DealtPass(Iterator[Any]):
    """A pass that worker processes read. Keeps the loader's position."""

    def __init__(
        self, loader: Loader, number: int, start: Position, items: Iterator[_Dealt]
    ) -> None:
        self._loader = loader
        self._number = number
        self._epoch = start.epoch
        self._position = start
        self._items = items

    def __next__(self) -> Any:
        self._loader._check_pass(self._number)
        steps = len(self._loader)
        try:
            dealt = next(self._items)
        except StopIteration:
            if self._position.epoch != self._epoch:
                raise
            raise InternalError(
                f"the workers ended before step {self._position.step} of {steps} of epoch "
                f"{self._epoch} came"
            ) from None
        self._position = self._position.after(dealt.step, steps)
        self._loader._count_dealt(self._epoch, self._position)
        return dealt.item


def _distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
