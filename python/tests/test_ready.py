# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Order "ready": batches as they become complete, with a state that is exact at any moment."""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emlio
from emlio import Batch, Loader
from emlio._loader import Position
from processes import Daemon

Load = Callable[..., Loader]
STEPS = 40  # of `halves`; steps 2, 3, 6, 7, ... are of its second folder
TIMEOUT_S = 60  # against hangs only


@pytest.fixture
def daemons(
    serve: Callable[[Path], Daemon], halves: tuple[Path, Path]
) -> Iterator[tuple[Daemon, Daemon]]:
    first, second = map(serve, halves)
    yield first, second
    first.thaw()


def steps(batches: Iterable[Batch]) -> list[int]:
    return [batch.step for batch in batches]


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    again: dict[str, Any] = json.loads(json.dumps(state))
    return again


def left_in(state: dict[str, Any], number: int) -> list[int]:
    return [step for step in range(state["step"], number) if step not in state["handed_out"]]


def test_batches_go_on_beside_a_storage_host_that_stands_still(
    daemons: tuple[Daemon, Daemon], load: Load
) -> None:
    sources = [daemon.url for daemon in daemons]
    options: dict[str, Any] = {"features": None, "prefetch_mb": 1}
    loader = load(sources, order="ready", ready_window=STEPS, **options)
    batches = iter(loader)
    taken = steps([next(batches)])
    daemons[0].freeze()
    taken += steps(next(batches) for _ in range(17))
    state = through_json(loader.state_dict())
    daemons[0].thaw()
    # The first host had sent what a few batches take, and every second pair of batches is its.
    assert state["handed_out"]
    assert state["step"] not in taken
    assert sorted({*range(state["step"]), *state["handed_out"]}) == sorted(taken)

    for order, window in [("step", 16), ("ready", 3), ("ready", STEPS)]:
        resumed = load(sources, order=order, ready_window=window, **options)
        resumed.load_state_dict(state)
        assert resumed.state_dict()["handed_out"] == state["handed_out"]
        rest = list(resumed)
        assert sorted(steps(rest)) == left_in(state, STEPS)
        if order == "step":
            assert steps(rest) == left_in(state, STEPS)
        assert (resumed.state_dict()["epoch"], resumed.state_dict()["step"]) == (1, 0)
        indices = np.concatenate([batch.indices for batch in rest])
        assert len(set(indices)) == len(indices) == 8 * (STEPS - 18)
    rest = list(batches)
    assert sorted(taken + steps(rest)) == list(range(STEPS))
    assert len(loader) == STEPS
    assert loader.state_dict()["handed_out"] == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_goes_on_beside_a_storage_host_that_stands_still(
    daemons: tuple[Daemon, Daemon], workers: int
) -> None:
    emlio_torch = pytest.importorskip("emlio.torch")

    def make(number: int, order: str) -> Any:
        dataset = emlio_torch.IterableDataset(
            [daemon.url for daemon in daemons],
            batch_size=8,
            prefetch_mb=1,
            order=order,
            ready_window=STEPS,
            transform=lambda batch: (batch.step, batch.indices.tolist()),
        )
        timeout = TIMEOUT_S if number else 0
        return emlio_torch.DataLoader(dataset, num_workers=number, timeout=timeout)

    loader = make(workers, "ready")
    assert len(loader) == STEPS
    items = iter(loader)
    taken = [next(items) for _ in range(max(1, workers))]  # every worker is connected
    daemons[0].freeze()
    taken += [next(items) for _ in range(18 - len(taken))]
    state = through_json(loader.state_dict())
    daemons[0].thaw()
    assert state["handed_out"]
    handed_out = sorted(step for step, _ in taken)
    assert handed_out == sorted({*range(state["step"]), *state["handed_out"]})
    for number, order in [(0, "step"), (2, "ready"), (3, "step")]:
        resumed = make(number, order)
        resumed.load_state_dict(state)
        rest = []
        for item in resumed:
            rest.append(item)
            # Exact after each of them.
            now = resumed.state_dict()
            seen = {*handed_out, *(step for step, _ in rest)}
            assert now["epoch"] == (len(seen) == STEPS)
            if now["epoch"] == 0:
                assert {*range(now["step"]), *now["handed_out"]} == seen
                assert now["step"] not in seen
        records = [index for _, indices in taken + rest for index in indices]
        assert sorted(records) == list(range(8 * STEPS))
    rest = list(items)
    assert sorted(step for step, _ in taken + rest) == list(range(STEPS))
    assert loader.state_dict()["epoch"] == 1


def test_without_anything_slow_every_epoch_is_whole_and_unmixed(
    daemons: tuple[Daemon, Daemon], load: Load
) -> None:
    sources = [daemon.url for daemon in daemons]
    loader = load(sources, features=None, order="ready", shuffle="full", epochs=3)
    for epoch in range(3):
        batches = list(loader)
        assert len(loader) == len(batches) == STEPS
        assert {batch.epoch for batch in batches} == {epoch}
        indices = np.concatenate([batch.indices for batch in batches])
        assert sorted(indices) == list(range(8 * STEPS))


def test_any_state_goes_on_in_any_order_with_any_number_of_workers(
    load: Load, hundred: Path
) -> None:
    emlio_torch = pytest.importorskip("emlio.torch")
    whole = [batch["id"].tolist() for batch in load(shuffle="full")]
    blank = load(shuffle="full").state_dict()
    assert blank["handed_out"] == []
    for step, handed_out in [(0, [1]), (2, [4, 5, 9]), (0, list(range(1, 12))), (11, [12])]:
        state = {**blank, "step": step, "handed_out": handed_out}
        left = [whole[number] for number in left_in(state, 13)]
        for order in ("step", "ready"):
            loader = load(shuffle="full", order=order, ready_window=5)
            loader.load_state_dict(state)
            assert loader.state_dict() == state
            copy = pickle.loads(pickle.dumps(loader))
            assert sorted(batch["id"].tolist() for batch in copy) == sorted(left)
            copy.close()
            assert loader.epoch == 0
            came = [batch["id"].tolist() for batch in loader]
            assert came == left if order == "step" else sorted(came) == sorted(left)
            # The next epoch has all of its batches.
            loader.set_epoch(1)
            assert len(list(loader)) == 13
            for workers in (1, 3):
                dataset = emlio_torch.IterableDataset(
                    hundred, batch_size=8, features={"id": "int64"}, shuffle="full", order=order
                )
                dealt = emlio_torch.DataLoader(dataset, num_workers=workers, timeout=TIMEOUT_S)
                dealt.load_state_dict(state)
                assert sorted(item["id"].tolist() for item in dealt) == sorted(left)
                assert (dealt.state_dict()["epoch"], dealt.state_dict()["step"]) == (1, 0)


def test_a_state_of_one_rank_in_order_ready_fits_two(load: Load) -> None:
    options: dict[str, Any] = {"global_batch_size": 10, "order": "ready"}
    alone = load(**options)
    state = {**alone.state_dict(), "step": 3, "handed_out": [5]}
    alone.load_state_dict(state)
    batches = iter(alone)
    taken = [next(batches).step for _ in range(2)]
    state = through_json(alone.state_dict())
    assert (state["rank"], state["world_size"]) == (None, None)
    numbers: list[int] = []
    for rank in range(2):
        loader = load(rank=rank, world_size=2, **options)
        loader.load_state_dict(state)
        for batch in loader:
            numbers += batch["id"].tolist()
    done = {0, 1, 2, 5, *taken}
    assert sorted(numbers) == [n for n in range(100) if n // 10 not in done]


def test_a_state_inside_an_epoch_belongs_to_the_rank_that_made_it(load: Load) -> None:
    options: dict[str, Any] = {"global_batch_size": 10, "order": "ready"}
    loader = load(rank=0, world_size=2, **options)
    assert loader.state_dict()["rank"] is None
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = through_json(loader.state_dict())
    assert (state["rank"], state["world_size"]) == (0, 2)
    for rank, world_size in [(1, 2), (0, 1), (0, 3)]:
        other = load(rank=rank, world_size=world_size, **options)
        with pytest.raises(emlio.PlanMismatchError, match=r"saved .* by rank 0 of 2.*order=.step"):
            other.load_state_dict(state)
        assert other.state_dict()["step"] == 0
    # In order "step", too, since the rank's other steps are those of this state.
    for order in ("ready", "step"):
        same = load(rank=0, world_size=2, **{**options, "order": order})
        same.load_state_dict(state)
        again = pickle.loads(pickle.dumps(same)).state_dict()
        assert again == same.state_dict() == state
        assert len(list(same)) == 7
        assert same.state_dict()["rank"] is None  # between epochs all ranks agree
        assert len(list(same)) == 10
    next(iter(same))
    assert (same.state_dict()["epoch"], same.state_dict()["rank"]) == (2, None)  # order "step"


@pytest.mark.parametrize(
    "change",
    [
        {"handed_out": [3]},
        {"handed_out": [2]},
        {"handed_out": [6, 5]},
        {"handed_out": [5, 5]},
        {"handed_out": [13]},
        {"handed_out": ["5"]},
        {"handed_out": "5"},
        {"handed_out": 5},
        {"step": 13, "handed_out": [14]},
    ],
)
def test_a_state_that_cannot_be_is_refused(load: Load, change: dict[str, Any]) -> None:
    loader = load()
    with pytest.raises(emlio.InvalidArgumentError):
        loader.load_state_dict({**loader.state_dict(), "step": 3, **change})
    assert loader.state_dict()["step"] == 0


def test_options_that_cannot_work_are_refused(load: Load) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match="step and ready"):
        load(order="sorted")
    for window in (0, 4097, 2.5):
        with pytest.raises(emlio.InvalidArgumentError, match="ready_window"):
            load(order="ready", ready_window=window)


def test_a_position_moves_past_what_was_handed_out() -> None:
    position = Position(3, 0)
    assert not position.is_inside
    position = position.after(2, 4).after(1, 4)
    assert position == Position(3, 0, (1, 2))
    assert position.is_inside
    assert position.after(0, 4) == Position(3, 3)
    assert position.after(3, 4).after(0, 4) == Position(4, 0)


def test_dali_gets_every_batch_of_each_epoch_once(
    daemons: tuple[Daemon, Daemon], load: Load
) -> None:
    dali = pytest.importorskip("nvidia.dali")
    fn = pytest.importorskip("nvidia.dali.fn")

    class Numbered:
        """A loader as `emlio.dali.source` wants it, whose feature is the record's number."""

        def __init__(self, loader: Loader) -> None:
            self._loader = loader

        def __iter__(self) -> Iterator[Any]:
            return ({"number": batch.indices.astype(np.int64)} for batch in self._loader)

    sources = [daemon.url for daemon in daemons]
    loader = load(sources, features=None, prefetch_mb=1, order="ready", ready_window=STEPS)
    source = emlio.dali.source(Numbered(loader), "number")  # type: ignore[arg-type]
    pipeline = dali.Pipeline(batch_size=8, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(fn.external_source(source=source))
    pipeline.build()
    for epoch in range(2):
        numbers = []
        while True:
            try:
                (output,) = pipeline.run()
            except StopIteration:
                pipeline.reset()
                break
            numbers += [int(np.asarray(sample)) for sample in output]
            if epoch == 0 and len(numbers) == 8:
                daemons[0].freeze()
            if len(numbers) == 8 * 15:
                # Five pairs of batches of the first host would be among the first 15.
                ahead = {number // 8 for number in numbers} != set(range(15))
                assert epoch == 1 or ahead
                daemons[0].thaw()
        assert sorted(numbers) == list(range(8 * STEPS))
