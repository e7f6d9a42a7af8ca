# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The C++ part of EMLIO (python/bindings)."""

import builtins
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

__version__: str

def end_waits() -> None:
    """Ends all waits, for good: to be called when the interpreter ends."""

class Error(Exception):
    """What every failure of EMLIO is raised as: one subclass for each error code.

    Attributes:
        code: The name of the code as in messages and --json output, such as "CORRUPT".
    """

    code: ClassVar[str]

class InvalidArgumentError(Error, ValueError): ...
class NotFoundError(Error, FileNotFoundError): ...
class PermissionDeniedError(Error, PermissionError): ...
class CorruptError(Error): ...
class TruncatedError(Error): ...
class UnsupportedError(Error): ...
class LimitExceededError(Error): ...
class PlanMismatchError(Error): ...
class ProtocolError(Error): ...
class UnavailableError(Error, ConnectionError): ...
class TimeoutError(Error, builtins.TimeoutError): ...
class CancelledError(Error): ...
class ShardChangedError(Error): ...
class IoError(Error, OSError): ...
class InternalError(Error): ...

class BytesColumn:
    """Bytes values of a batch, in order: a sequence that makes its items when they are asked for.

    Items are read-only uint8 arrays of one dimension that share the batch's memory and keep it
    alive. Immutable; may be used from several threads.
    """

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> npt.NDArray[np.uint8]: ...
    @overload
    def __getitem__(self, index: slice) -> list[npt.NDArray[np.uint8]]: ...
    def __iter__(self) -> Iterator[npt.NDArray[np.uint8]]: ...
    def tolist(self) -> list[bytes]:
        """All values as bytes objects, which are copies."""
    def to_dlpack(self) -> list[object]:
        """All values as DLPack capsules that share the batch's memory and keep it alive.

        Each can be used once. Whoever holds one lets go of it without the GIL.
        """

class Ragged:
    """A column with any number of values a record.

    ragged[i] is what record i holds: an array of shape (n,), or a list of uint8 arrays where the
    values are bytes. Shares the batch's memory and keeps it alive. Immutable; may be used from
    several threads.
    """

    @property
    def values(self) -> npt.NDArray[np.int64] | npt.NDArray[np.float32] | BytesColumn:
        """The values of all records, one after another."""
    @property
    def row_offsets(self) -> npt.NDArray[np.int64]:
        """Shape (B + 1,), read-only: record i has values[row_offsets[i]:row_offsets[i + 1]]."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...

class Batch:
    """One step of one rank. len(batch) is its number of records, B.

    batch[name] is the column of a feature, by its spec:
        "int64", "float": array of shape (B,), dtype int64 or float32;
        "int64[3]", "float[3]": array of shape (B, 3);
        "int64[]", "float[]", "bytes[]", "bytes[3]": Ragged;
        "bytes": BytesColumn.
    Where a "?" feature is absent its value is 0 or empty; `present` tells.

    Arrays share the batch's memory and keep it alive, also after the loader is gone. Numbers may be
    written to, they belong to the user alone; bytes may not. Nothing is converted before it is
    asked for. May be used from several threads.
    """

    @property
    def epoch(self) -> int:
        """The epoch this batch belongs to."""
    @property
    def step(self) -> int:
        """The number of this batch in its epoch."""
    @property
    def records(self) -> BytesColumn:
        """The records' payloads as they are in the shards."""
    @property
    def indices(self) -> npt.NDArray[np.uint64]:
        """Shape (B,), read-only: each record's number in the data set; see Loader.locate."""
    @property
    def payload_bytes(self) -> int:
        """Size of all payloads."""
    @property
    def valid(self) -> int:
        """So many records, the first ones, are the epoch's own; those behind them are padding.

        Below len(batch) with tail="pad" alone, in the last batch of an epoch, where it may be 0.
        """
    @property
    def bad_records(self) -> list[tuple[int, str]]:
        """Number in the data set, and fault, of the records left out because they are bad.

        See `max_bad_records` of the loader.
        """
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> Any: ...
    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[str]:
        """The features' names, as keys()."""
    def keys(self) -> list[str]:
        """The features' names, in the order they were asked for in."""
    def is_optional(self, name: str) -> bool:
        """Whether the feature may be absent ("?" in its spec)."""
    def present(self, name: str) -> npt.NDArray[np.bool_]:
        """Shape (B,), read-only: which records have the feature."""

class Loader:
    """The C++ loader; emlio.Loader adds epochs, states and defaults."""

    def __init__(
        self,
        *,
        sources: Sequence[bytes],
        batch_size: int,
        global_batch_size: int,
        features: Sequence[tuple[str, str]],
        shuffle: str,
        shuffle_block: str,
        shuffle_window: str,
        tail: str,
        seed: int,
        rank: int,
        world_size: int,
        job: str,
        name: str,
        epochs: int,
        order: str,
        ready_window: int,
        step_stride: int,
        streams: int,
        prefetch_bytes: int,
        max_record_bytes: int,
        max_bad_records: int,
        timeout_ms: int,
        on_bad_shard: str,
        workers: int,
    ) -> None: ...
    def start_pass(self, epoch: int, step: int, handed_out: Sequence[int]) -> None: ...
    def next(self) -> Batch | None: ...
    def close(self) -> None: ...
    def cursor(self) -> tuple[int, int, list[int]]: ...
    def set_bad_records(self, bad_records: int) -> None:
        """What was left out before the state that is loaded."""
    def stats(self) -> dict[str, Any]: ...
    def locate(self, index: int) -> tuple[str, int]: ...
    @property
    def records(self) -> int: ...
    @property
    def steps_per_epoch(self) -> int: ...
    @property
    def plan_hash(self) -> str: ...
    @property
    def manifest_digest(self) -> str: ...
    @property
    def global_batch_size(self) -> int: ...
    @property
    def block_records(self) -> int: ...
    @property
    def window_blocks(self) -> int: ...

class EnergyRun:
    """The C++ side of an emlio.energy run."""

    def __init__(
        self,
        *,
        interval_ms: int,
        root: str,
        nvml_library: str,
        rocm_library: str,
        gpus: Sequence[str],
        name: str,
        stage: str,
        nodes: Sequence[str],
        connect_timeout_ms: int,
    ) -> None: ...
    def report(self, window: int) -> dict[str, Any]:
        """What a window of this run used."""
    def add_node(self, endpoint: str) -> None:
        """Adds another node's agent."""
    def stop(self) -> dict[str, Any]:
        """Ends the run: everything that was measured."""

def energy_open(name: str, stage: str, epoch: int, rank: int) -> tuple[int, int, int]:
    """Opens a window: its numbers for energy_close, EnergyRun.report and energy_told; 0: none."""

def energy_told(number: int) -> dict[str, Any] | None:
    """What a window used, by who started this process; None: nobody measures."""

def energy_close(number: int, records: int, bytes: int) -> None:
    """Closes a window."""

def energy_end() -> None:
    """Ends what is going on, for good: to be called when the interpreter ends."""
