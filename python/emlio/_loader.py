# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The loader: a C++ loader with defaults, epochs and a state."""

import atexit
import math
import os
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple

from emlio import _core, _environment
from emlio._core import (
    Batch,
    CancelledError,
    InvalidArgumentError,
    PlanMismatchError,
    UnsupportedError,
)

StateDict = dict[str, Any]
Source = str | os.PathLike[str]

# What front ends call the mask that tells records from padding.
VALID = "emlio/valid"

_STATE_VERSION = 1
_MIB = 1 << 20


class Position(NamedTuple):
    """Where a loader is in its data.

    Attributes:
        epoch: The one that is being read.
        step: Its first step that was not handed out.
        handed_out: Steps behind it that were, ascending (order="ready").
    """

    epoch: int
    step: int
    handed_out: tuple[int, ...] = ()

    @property
    def is_inside(self) -> bool:
        """Whether some of the epoch was handed out."""
        return self.step > 0 or bool(self.handed_out)

    def after(self, step: int, steps: int) -> "Position":
        """The position once `step` was handed out, in epochs of so many steps."""
        handed_out = {*self.handed_out, step}
        first = self.step
        while first in handed_out:
            handed_out.remove(first)
            first += 1
        if first == steps:
            return Position(self.epoch + 1, 0)
        return Position(self.epoch, first, tuple(sorted(handed_out)))


class Loader:
    """Reads batches of records from storage hosts and local files, one pass for each `for`.

    `for batch in loader` reads one epoch, the next `for` the next one; a pass that was left by
    `break` counts as read. `len(loader)` is the number of batches of a whole epoch. Which record is
    in which batch depends on the data set, seed, shuffle, global batch size and tail only.

    The constructor connects and raises what is wrong. A pickled or copied loader is its options
    and its position; it connects when it is first used. Batches stay valid after `close`.

    Thread-safe, except that a pass belongs to one thread at a time. Waiting, checking and parsing
    happen without the GIL. A loader cannot be used in a forked process.

    Args:
        sources: "tcp://host:port/dataset", or local files, directories or glob patterns, or any
            mixture of them in a sequence.
        batch_size: Records of a batch of this rank. Give this or `global_batch_size`.
        global_batch_size: Records of a step over all ranks; stays the same when the number of
            ranks changes, and a saved state with it.
        features: tf.train.Example features to parse: name to "bytes", "int64" or "float", followed
            by "[3]" for a fixed and "[]" for any number of values, and "?" where the feature may
            be absent. None: records only.
        shuffle: "none"; "full" for an order of all records that differs with every epoch; "block"
            for one that reads nearly in sequence: blocks of neighbouring records are shuffled, then
            records inside windows of blocks.
        shuffle_block: With shuffle="block": how much stays close together. An integer is records, a
            string with a unit bytes: "4MiB" (B, KB, MB, GB, KiB, MiB, GiB). By default "1MiB".
        shuffle_window: With shuffle="block": how much is mixed, likewise; the more, the more like
            "full". By default "64MiB".
        seed: Of the order. All ranks must use the same.
        tail: What becomes of a last step that is not full: "keep" makes it smaller, "drop" leaves
            it out, "pad" fills it up with records of the same epoch; `Batch.valid` tells which.
        rank: Of this process; by default what torchrun or Slurm say, else 0.
        world_size: Number of ranks; given together with `rank`.
        job: Common to all ranks of a job: storage hosts refuse ranks of one job that do not read
            the same. By default what torchrun or Slurm say.
        name: Tells the loaders of one job apart, where two read the same data set.
        epochs: How many passes will be made, where it is known: then the start of each epoch is
            read ahead while the one before it ends.
        order: When batches are handed out. "step" is the order of the plan, the same every time;
            with "ready" they come as they become complete, so that a slow storage host holds up
            fewer of them. The batches are the same, and epochs are not mixed.
        ready_window: With order="ready": only steps less than so many behind the first one that was
            not handed out.
        streams: Connections to each storage host; by default as many as distance and rate ask for.
        prefetch_mb: Limit of what was received or is on the way and not handed out, in MiB; at
            least 1. By default 256, and more where distance and rate ask for it.
        timeout_s: Limit for connecting, and for a wait in which nothing arrives.
        max_record_mb: A larger record is an error, in MiB.
        max_bad_records: How often a record may be bad where it is stored, over all passes (in each
            anew) and resumed runs: such records are left out of their batches
            (`Batch.bad_records`), which are that much shorter, and counted in `stats()` and the
            state. One more is a CorruptError. 0: the first one is.
        on_bad_shard: For local sources: what is done with a shard that is cut or has a damaged
            length field. "error", or "keep-readable": what can be read of it is used, with a
            warning, and `stats()` has the size of what cannot. Storage hosts decide for theirs.
        workers: Threads that check and parse; 0 for the number of processors, at most 4.

    Raises:
        InvalidArgumentError: Options that cannot work.
        NotFoundError: No such data set, file or host name; patterns without a match.
        UnavailableError: A storage host cannot be reached.
        TimeoutError: A storage host has not answered in time.
        PlanMismatchError: Sources or ranks disagree about what is to be read.
        Error: What storage hosts or shards have to report otherwise; see the subclasses.
    """

    __module__ = "emlio"

    def __init__(
        self,
        sources: Source | Sequence[Source],
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        features: Mapping[str, str] | None = None,
        shuffle: Literal["none", "full", "block"] = "none",
        shuffle_block: int | str | None = None,
        shuffle_window: int | str | None = None,
        seed: int = 0,
        tail: Literal["keep", "drop", "pad"] = "keep",
        rank: int | None = None,
        world_size: int | None = None,
        job: str | None = None,
        name: str | None = None,
        epochs: int | None = None,
        order: Literal["step", "ready"] = "step",
        ready_window: int = 16,
        streams: int | None = None,
        prefetch_mb: float | None = None,
        timeout_s: float = 60,
        max_record_mb: float = 256,
        max_bad_records: int = 0,
        on_bad_shard: Literal["error", "keep-readable"] = "error",
        workers: int = 0,
    ) -> None:
        if (batch_size is None) == (global_batch_size is None):
            raise InvalidArgumentError("give batch_size (of each rank) or global_batch_size")
        if isinstance(features, str) or not isinstance(features, Mapping | None):
            raise InvalidArgumentError('features is a mapping, such as {"label": "int64"}')
        self._options: dict[str, Any] = {
            "sources": _source_list(sources),
            "batch_size": _optional_count("batch_size", batch_size),
            "global_batch_size": _optional_count("global_batch_size", global_batch_size),
            "features": list((features or {}).items()),
            "shuffle": shuffle,
            "shuffle_block": _size("shuffle_block", shuffle_block),
            "shuffle_window": _size("shuffle_window", shuffle_window),
            "seed": _integer("seed", seed, 0, 2**64 - 1),
            "tail": tail,
            "rank": None if rank is None else _integer("rank", rank, 0, 2**32 - 1),
            "world_size": _optional_count("world_size", world_size, 2**32 - 1),
            "job": job,
            "name": name,
            "epochs": _optional_count("epochs", epochs),
            "order": order,
            "ready_window": _integer("ready_window", ready_window, 1, 4096),
            "streams": _optional_count("streams", streams, 256),
            "prefetch_mb": None if prefetch_mb is None else _positive("prefetch_mb", prefetch_mb),
            "timeout_s": _positive("timeout_s", timeout_s),
            "max_record_mb": _positive("max_record_mb", max_record_mb),
            "max_bad_records": _integer("max_bad_records", max_bad_records, 0, 2**63),
            "on_bad_shard": on_bad_shard,
            "workers": _integer("workers", workers, 0, 1024),
        }
        self._reset(Position(0, 0))
        self._opened()

    def _reset(self, start: Position) -> None:
        self._core: _core.Loader | None = None
        self._placement: _environment.Placement | None = None
        self._closed = False
        # Where the next pass starts; None: after the one before it.
        self._start: Position | None = start
        # The pass begun last. Iterators know its number, and the loader knows no iterator: a cycle
        # would keep the connections until the garbage collector runs.
        self._pass_number = 0
        self._pass_epoch: int | None = None  # while it has not ended
        # Where a pass is that worker processes read (see emlio.torch.DataLoader); None: the core's.
        self._dealt: Position | None = None
        # Within this epoch the position is this rank's own: others have handed out other steps.
        self._own_epoch: int | None = None
        # In a worker process: which of how many it is.
        self._worker: tuple[int, int] | None = None

    def _opened(self) -> _core.Loader:
        if self._closed:
            raise CancelledError("the loader is closed")
        if self._core is None:
            if self._worker is None:
                _refuse_worker_process()
            options = self._options
            placement = _environment.resolve(
                os.environ, options["rank"], options["world_size"], options["job"]
            )
            self._core = _core.Loader(
                sources=[os.fsencode(source) for source in options["sources"]],
                batch_size=options["batch_size"] or 0,
                global_batch_size=options["global_batch_size"] or 0,
                features=options["features"],
                shuffle=options["shuffle"],
                shuffle_block=options["shuffle_block"],
                shuffle_window=options["shuffle_window"],
                tail=options["tail"],
                seed=options["seed"],
                rank=placement.rank,
                world_size=placement.world_size,
                job=placement.job,
                name=options["name"] or "",
                epochs=options["epochs"] or 0,
                order=options["order"],
                ready_window=options["ready_window"],
                step_stride=1 if self._worker is None else self._worker[1],
                streams=options["streams"] or 0,
                prefetch_bytes=int((options["prefetch_mb"] or 0) * _MIB),
                max_record_bytes=int(options["max_record_mb"] * _MIB),
                max_bad_records=options["max_bad_records"],
                timeout_ms=math.ceil(options["timeout_s"] * 1000),
                on_bad_shard=options["on_bad_shard"],
                workers=options["workers"],
            )
            self._placement = placement
            _open_loaders.add(self)
        return self._core

    def __iter__(self) -> Iterator[Batch]:
        """Starts the next pass: at a loaded state, otherwise at the start of the next epoch.

        A pass that is still being read ends with it.
        """
        if self._worker is None:
            _refuse_worker_process()
        core = self._opened()
        start = self._next_start(core)
        self._pass_number += 1
        self._pass_epoch = None
        self._dealt = None
        self._start = start  # until its first batch is handed out
        self._forget_own(start)
        core.start_pass(*start)
        self._pass_epoch = start.epoch
        return _Pass(self, self._pass_number)

    def _next_start(self, core: _core.Loader) -> Position:
        if self._start is not None:
            return self._start
        position = self._position(core)
        return Position(position.epoch + 1, 0) if position.is_inside else position

    def _next_batch(self, pass_number: int) -> Batch | None:
        self._check_pass(pass_number)
        if self._pass_epoch is None:
            return None
        batch = self._opened().next()
        if batch is None:
            self._pass_epoch = None
        else:
            self._start = None
            self._count_own(batch.epoch)
        return batch

    def _forget_own(self, start: Position) -> None:
        # At the start of an epoch all ranks agree.
        if not start.is_inside:
            self._own_epoch = None

    def _count_own(self, epoch: int) -> None:
        if self._options["order"] == "ready":
            self._own_epoch = epoch

    def _check_pass(self, pass_number: int) -> None:
        if pass_number != self._pass_number:
            raise CancelledError(
                "this pass has ended: another one was begun, or the position was set, since then"
            )

    def __len__(self) -> int:
        """Number of batches of a whole epoch, the same for all ranks."""
        return self._opened().steps_per_epoch

    @property
    def epoch(self) -> int:
        """The epoch of the pass begun last, or of the next one when that has ended."""
        if self._pass_epoch is not None:
            return self._pass_epoch
        return self._next_start(self._opened()).epoch

    def set_epoch(self, epoch: int) -> None:
        """Makes `epoch` the one that the next pass reads; a pass that is being read ends.

        When a state of that very epoch was loaded, its step is kept: a training loop may set every
        epoch and still resume.
        """
        epoch = _integer("epoch", epoch, 0, 2**63)
        if self._start is None or self._start.epoch != epoch:
            self._start = Position(epoch, 0)
        self._end_pass()

    def state_dict(self) -> StateDict:
        """The position and what it belongs to, as plain values that JSON can hold.

        The position is that of the first batch not handed out yet; after the last batch of an
        epoch it is the start of the next one. It belongs to all ranks, and fits any number of
        ranks as long as `global_batch_size` is the same.

        With order="ready" the steps behind that one that were handed out are part of it. Several
        ranks have handed out different ones, so that inside an epoch the state belongs to the rank
        that made it, and names it: save and load one for each rank then.
        """
        core = self._opened()
        position = self._position(core)
        is_own = position.is_inside and position.epoch == self._own_epoch and self.world_size > 1
        return {
            "version": _STATE_VERSION,
            "epoch": position.epoch,
            "step": position.step,
            "handed_out": list(position.handed_out),
            "rank": self.rank if is_own else None,
            "world_size": self.world_size if is_own else None,
            "bad_records": core.stats()["bad_records"],
            **self._identity(core),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass start at the position of a `state_dict`; one being read ends.

        Raises:
            PlanMismatchError: The state belongs to other data, another plan or another rank; says
                what differs.
            InvalidArgumentError: It is not a state.
            UnsupportedError: It was made by a newer version.
        """
        core = self._opened()
        if not isinstance(state, Mapping) or "version" not in state:
            raise InvalidArgumentError("this is not the state of an emlio.Loader")
        if state["version"] != _STATE_VERSION:
            raise UnsupportedError(
                f"a state of version {state['version']!r}; this is version {_STATE_VERSION}"
            )
        identity = self._identity(core)
        missing = [key for key in ("epoch", "step", *identity) if key not in state]
        if missing:
            raise InvalidArgumentError(f"the state has no {', '.join(missing)}")
        if state["plan_hash"] != identity["plan_hash"]:
            raise PlanMismatchError(_difference(state, identity))
        owner = (state.get("rank"), state.get("world_size"))
        here = (self.rank, self.world_size)
        if owner not in ((None, None), here):
            raise PlanMismatchError(
                f'the state was saved inside an epoch with order="ready" by rank {owner[0]} of '
                f"{owner[1]}, and every rank has handed out other batches; this is rank {here[0]} "
                f"of {here[1]}. Load the state that this rank has saved. For one state of all "
                'ranks, or another number of them, save between epochs, or use order="step"'
            )
        position = _position_of(state, core.steps_per_epoch)
        bad_records = _integer("the state's bad_records", state.get("bad_records", 0), 0, 2**63)
        core.set_bad_records(bad_records)
        self._start = position
        self._own_epoch = None if owner == (None, None) else position.epoch
        self._end_pass()

    def _position(self, core: _core.Loader) -> Position:
        if known := self._start or self._dealt:
            return known
        epoch, step, handed_out = core.cursor()
        return Position(epoch, step, tuple(handed_out))

    def _deal_pass(self) -> tuple[int, Position]:
        """Begins a pass that worker processes read: its number, and where it starts."""
        start = self._next_start(self._opened())
        self._end_pass()
        self._start, self._pass_epoch = start, start.epoch
        self._forget_own(start)
        return self._pass_number, start

    def _count_dealt(self, epoch: int, position: Position) -> None:
        """A batch of the dealt pass over `epoch` was handed out, which is at `position` now."""
        self._start = None
        self._dealt = position
        self._pass_epoch = epoch if position.epoch == epoch else None
        self._count_own(epoch)

    def _for_worker(self, number: int, count: int, start: Position) -> "Loader":
        """In a worker process: a loader of every count-th step from the number-th on."""
        step = start.step + number
        handed_out = {done for done in start.handed_out if (done - step) % count == 0}
        while step in handed_out:
            step += count
        behind = tuple(sorted(done for done in handed_out if done > step))
        options = self._options
        streams, prefetch_mb = options["streams"], options["prefetch_mb"]
        loader = Loader.__new__(Loader)
        loader._options = {
            **options,
            "epochs": None,
            # Where they are automatic, so are the parts.
            "streams": streams and -(-streams // count),
            "prefetch_mb": prefetch_mb and max(1, prefetch_mb / count),
            "workers": options["workers"] or 1,
        }
        loader._reset(Position(start.epoch, step, behind))
        loader._worker = (number, count)
        return loader

    def _identity(self, core: _core.Loader) -> StateDict:
        return {
            "records": core.records,
            "manifest_digest": core.manifest_digest,
            "seed": self._options["seed"],
            "shuffle": self._options["shuffle"],
            "block_records": core.block_records,
            "window_blocks": core.window_blocks,
            "tail": self._options["tail"],
            "global_batch_size": core.global_batch_size,
            "plan_hash": core.plan_hash,
        }

    def _end_pass(self) -> None:
        self._pass_number += 1
        self._pass_epoch = None

    @property
    def records(self) -> int:
        """Number of records of the whole data set."""
        return self._opened().records

    @property
    def rank(self) -> int:
        """The rank of this process."""
        self._opened()
        return self._placement.rank if self._placement else 0

    @property
    def world_size(self) -> int:
        """Number of ranks that share the data."""
        self._opened()
        return self._placement.world_size if self._placement else 1

    @property
    def block_records(self) -> int:
        """Records of a block of shuffle="block", made of `shuffle_block`; else 0."""
        return self._opened().block_records

    @property
    def window_blocks(self) -> int:
        """Blocks of a window of shuffle="block", made of `shuffle_window`; else 0."""
        return self._opened().window_blocks

    @property
    def plan_hash(self) -> str:
        """Names what is read in which order; equal on all ranks of a job."""
        return self._opened().plan_hash

    def locate(self, index: int) -> tuple[str, int]:
        """Shard name and record number in that shard, for an element of `Batch.indices`.

        A name that is not UTF-8 is as `os.fsdecode` gives it: `os.fsencode` gives its bytes.
        """
        return self._opened().locate(int(index))

    def stats(self) -> dict[str, Any]:
        """Counters since the loader was opened; after `close`, their last values.

        `wait_share` is the part of the time since the first batch was asked for that the user has
        waited for batches: near 0, training is the bottleneck; near 1, data are.
        Times are in seconds, sizes in bytes.
        """
        return (self._core or self._opened()).stats()

    def close(self) -> None:
        """Closes the connections and stops all threads; a wait in another thread ends.

        Batches stay valid. Safe to call twice; in a forked child it does nothing.
        """
        self._closed = True
        if self._core is not None:
            self._core.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        start = self._start if self._core is None else self._position(self._core)
        return {"options": self._options, "start": start, "own_epoch": self._own_epoch}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._options = state["options"]
        self._reset(state["start"])
        self._own_epoch = state["own_epoch"]

    def __repr__(self) -> str:
        options = self._options
        size = "batch_size" if options["batch_size"] else "global_batch_size"
        return (
            f"emlio.Loader({options['sources']!r}, {size}={options[size]}, "
            f"shuffle={options['shuffle']!r}, seed={options['seed']})"
        )


class _Pass(Iterator[Batch]):
    """One pass over an epoch of a loader."""

    __slots__ = ("_loader", "_number")

    def __init__(self, loader: Loader, number: int) -> None:
        self._loader = loader
        self._number = number

    def __next__(self) -> Batch:
        batch = self._loader._next_batch(self._number)
        if batch is None:
            raise StopIteration
        return batch


# At exit all threads must be gone before C++ takes its own static objects apart.
_open_loaders: "weakref.WeakSet[Loader]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    _core.end_waits()
    for loader in list(_open_loaders):
        loader.close()


def _refuse_worker_process() -> None:
    # Asked through sys.modules: who has not imported torch is in none of its workers.
    data = sys.modules.get("torch.utils.data")
    if data is not None and data.get_worker_info() is not None:
        raise UnsupportedError(
            "a loader cannot be used in a worker process of a torch DataLoader, every worker "
            "would read all data; set num_workers=0, since receiving and parsing have their own "
            "threads, or use emlio.torch.DataLoader, which deals the batches out to workers"
        )


def _position_of(state: Mapping[str, Any], steps: int) -> Position:
    epoch = _integer("the state's epoch", state["epoch"], 0, 2**63)
    step = _integer("the state's step", state["step"], 0, steps)
    handed_out = state.get("handed_out", ())
    if isinstance(handed_out, str) or not isinstance(handed_out, Sequence):
        raise InvalidArgumentError(f"the state's handed_out is a list, not {handed_out!r}")
    before = step
    for done in handed_out:
        before = _integer("a step of the state's handed_out", done, before + 1, steps - 1)
    if step == steps:
        return Position(epoch + 1, 0)
    return Position(epoch, step, tuple(handed_out))


def _difference(state: Mapping[str, Any], identity: StateDict) -> str:
    differing = [
        f"{key} is {identity[key]!r} here and {state[key]!r} in the state"
        for key in identity
        if key != "plan_hash" and state[key] != identity[key]
    ]
    reason = "; ".join(differing) or "it was made by another version of the plan"
    return f"the state does not fit this loader: {reason}"


def _source_list(sources: Source | Sequence[Source]) -> list[str]:
    if isinstance(sources, str | os.PathLike):
        sources = [sources]
    try:
        paths = [os.fspath(source) for source in sources]
    except TypeError as error:
        raise InvalidArgumentError(
            f"sources are strings or paths, or a sequence of them, not {sources!r}"
        ) from error
    if not paths:
        raise InvalidArgumentError("there is no source")
    return paths


def _integer(name: str, value: int, low: int, high: int) -> int:
    # Anything with __index__, NumPy's integers included; True and 2.0 are more likely mistakes.
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgumentError(f"{name} is an integer, not {value!r}")
    number = value.__index__()
    if not low <= number <= high:
        raise InvalidArgumentError(f"{name}={number} is not between {low} and {high}")
    return number


def _size(name: str, value: int | str | None) -> str:
    # In the form that the command line takes, which the core reads.
    if value is None:
        return ""
    if isinstance(value, str) and value:
        return value
    return str(_integer(name, value, 1, 2**32 - 1))  # type: ignore[arg-type]


def _optional_count(name: str, value: int | None, high: int = 2**31) -> int | None:
    return None if value is None else _integer(name, value, 1, high)


def _positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**40:
        raise InvalidArgumentError(f"{name} is a number above 0, not {value!r}")
    return value
