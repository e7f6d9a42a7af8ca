# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What a user holds: passes, epochs, states, ranks."""

import copy
import itertools
import json
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emlio
import shards
from emlio import Batch, Loader

Load = Callable[..., Loader]


def ids(batches: Iterable[Batch]) -> list[int]:
    return [int(number) for batch in batches for number in batch["id"]]


def test_each_for_is_one_pass_over_the_next_epoch(load: Load) -> None:
    loader = load(shuffle="full")
    epochs = []
    for epoch in range(3):
        batches = list(loader)
        assert {batch.epoch for batch in batches} == {epoch}
        assert [batch.step for batch in batches] == list(range(13))
        epochs.append(ids(batches))
    assert [sorted(epoch) for epoch in epochs] == [list(range(100))] * 3
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_without_a_shuffle_records_come_in_the_order_of_the_shards(load: Load) -> None:
    assert ids(load()) == list(range(100))


def test_the_seed_decides_the_order(load: Load) -> None:
    first = ids(load(shuffle="full", seed=1))
    assert first == ids(load(shuffle="full", seed=1))
    assert first != ids(load(shuffle="full", seed=2))


@pytest.mark.parametrize("shuffle", ["none", "full", "block"])
@pytest.mark.parametrize(
    ("tail", "steps", "last", "valid"), [("keep", 13, 4, 4), ("drop", 12, 8, 8), ("pad", 13, 8, 4)]
)
def test_len_is_what_is_yielded(
    load: Load, shuffle: str, tail: str, steps: int, last: int, valid: int
) -> None:
    loader = load(tail=tail, shuffle=shuffle)
    for _ in range(2):
        batches = list(loader)
        assert len(loader) == len(batches) == steps
        assert [len(batch) for batch in batches] == [8] * (steps - 1) + [last]
        assert [batch.valid for batch in batches] == [8] * (steps - 1) + [valid]
        every = [number for batch in batches for number in batch["id"][: batch.valid].tolist()]
        assert len(set(every)) == len(every) == 8 * (steps - 1) + valid
    loader.load_state_dict({**loader.state_dict(), "epoch": 1, "step": 5})
    assert ids(loader) == ids(batches[5:])


@pytest.mark.parametrize(
    ("tail", "records", "ranks"),
    [
        *[(tail, *size) for tail in ("keep", "drop", "pad") for size in ((100, 7), (36, 3))],
        *[(tail, 10, 4) for tail in ("keep", "pad")],
    ],
)
def test_all_ranks_get_equally_many_batches(
    tmp_path: Path, tail: str, records: int, ranks: int
) -> None:
    folder = shards.write_labelled(tmp_path / "data", records)
    options: dict[str, Any] = {"batch_size": 3, "features": {"id": "int64"}, "tail": tail}
    loaders = [
        Loader(folder, **options, shuffle="full", rank=rank, world_size=ranks)
        for rank in range(ranks)
    ]
    every = [list(loader) for loader in loaders]
    assert {len(batches) for batches in every} == {len(loader) for loader in loaders}
    valid = [
        number
        for batches in every
        for batch in batches
        for number in batch["id"][: batch.valid].tolist()
    ]
    assert len(set(valid)) == len(valid)
    if tail != "drop":
        assert sorted(valid) == list(range(records))
    padded = sum(int(loader.stats()["padded_records"]) for loader in loaders)
    assert padded == (-records % (3 * ranks) if tail == "pad" else 0)


def test_fewer_records_than_a_step_name_the_choices(load: Load, tmp_path: Path) -> None:
    folder = shards.write_labelled(tmp_path / "data", 10)
    with pytest.raises(emlio.InvalidArgumentError, match="'keep' or 'pad'"):
        load(folder, batch_size=3, tail="drop", rank=0, world_size=4)


def test_blocks_are_given_in_records_or_bytes(load: Load) -> None:
    loader = load(shuffle="block", shuffle_block=5, shuffle_window=20)
    assert (loader.block_records, loader.window_blocks) == (5, 4)
    epochs = [ids(loader) for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(100))] * 2
    assert epochs[0] != epochs[1]
    for first in range(0, 100, 20):  # a window: four runs of five neighbours, one may be split
        numbers = sorted(epochs[0][first : first + 20])
        assert sum((b - a) % 100 != 1 for a, b in itertools.pairwise(numbers)) <= 4

    mean = sum(batch.payload_bytes for batch in loader) / 100 + 16
    by_bytes = load(shuffle="block", shuffle_block=f"{int(5 * mean) + 1}B", shuffle_window=20)
    assert by_bytes.block_records == 5
    assert by_bytes.plan_hash == loader.plan_hash
    # The defaults hold all of this small data set.
    default = load(shuffle="block")
    assert default.block_records == (1 << 20) // mean
    assert (load().block_records, load().window_blocks) == (0, 0)


def test_a_state_of_other_blocks_is_refused(load: Load) -> None:
    state = load(shuffle="block", shuffle_block=5).state_dict()
    with pytest.raises(emlio.PlanMismatchError, match="block_records is 10 here and 5"):
        load(shuffle="block", shuffle_block=10).load_state_dict(state)
    load(shuffle="block", shuffle_block=5).load_state_dict(json.loads(json.dumps(state)))


def test_after_a_break_the_next_for_reads_the_next_epoch(load: Load) -> None:
    loader = load()
    for batch in loader:
        if batch.step == 4:
            break
    assert [batch.epoch for batch in loader] == [1] * 13
    assert loader.epoch == 2


def test_a_pass_of_which_nothing_was_taken_was_none(load: Load) -> None:
    loader = load()
    iter(loader)
    iter(loader)
    assert next(iter(loader)).epoch == 0
    assert next(iter(loader)).epoch == 1


def test_a_pass_ends_when_another_begins(load: Load) -> None:
    loader = load()
    first = iter(loader)
    next(first)
    second = iter(loader)
    with pytest.raises(emlio.CancelledError, match="another one was begun"):
        next(first)
    assert len(list(second)) == 13


def test_an_ended_pass_stays_ended(load: Load) -> None:
    batches = iter(load())
    assert len(list(batches)) == 13
    assert next(batches, None) is None
    assert next(batches, None) is None


def test_epoch_changes_when_a_pass_ends(load: Load) -> None:
    loader = load()
    assert loader.epoch == 0
    for _ in loader:
        assert loader.epoch == 0
    assert loader.epoch == 1


def test_set_epoch(load: Load) -> None:
    loader = load(shuffle="full")
    expected = [ids(loader) for _ in range(3)]
    for epoch in (2, 0, 0, 1):
        loader.set_epoch(epoch)
        assert ids(loader) == expected[epoch]


def test_set_epoch_keeps_the_step_of_a_loaded_state(load: Load) -> None:
    loader = load()
    state = {**loader.state_dict(), "epoch": 1, "step": 5}
    loader.load_state_dict(state)
    loader.set_epoch(1)
    assert [batch.step for batch in loader] == list(range(5, 13))
    loader.load_state_dict(state)
    loader.set_epoch(2)
    assert [batch.step for batch in loader] == list(range(13))


def test_a_state_resumes_at_every_step(load: Load) -> None:
    whole = load(shuffle="full")
    epochs = [ids(whole), ids(whole)]
    for taken in range(14):
        saver = load(shuffle="full")
        before = []
        batches = iter(saver)
        for _ in range(taken):
            before += ids([next(batches)])
        state = json.loads(json.dumps(saver.state_dict()))
        resumed = load(shuffle="full")
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        if taken < 13:
            assert (state["epoch"], state["step"]) == (0, taken)
            assert len(resumed) == 13
            assert before + ids(resumed) == epochs[0]
        else:
            assert (state["epoch"], state["step"]) == (1, 0)
        assert ids(resumed) == epochs[1]


def test_the_user_may_count_steps_up_to_the_end(load: Load) -> None:
    loader = load()
    loader.load_state_dict({**loader.state_dict(), "epoch": 3, "step": 13})
    assert loader.epoch == 4


def test_a_state_of_one_rank_fits_two(load: Load) -> None:
    alone = load(global_batch_size=10, shuffle="full")
    whole = [ids([batch]) for batch in alone]
    alone.set_epoch(0)
    batches = iter(alone)
    for _ in range(3):
        next(batches)
    rest = []
    for rank in range(2):
        loader = load(global_batch_size=10, shuffle="full", rank=rank, world_size=2)
        loader.load_state_dict(alone.state_dict())
        rest.append([ids([batch]) for batch in loader])
    assert [a + b for a, b in zip(*rest, strict=True)] == whole[3:]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"seed": 1}, "seed is 1 here and 0 in the state"),
        ({"shuffle": "full"}, "shuffle is 'full' here and 'none' in the state"),
        ({"batch_size": 4}, "global_batch_size is 4 here and 8 in the state"),
        ({"tail": "drop"}, "tail is 'drop' here and 'keep' in the state"),
    ],
)
def test_a_state_of_another_order_is_refused(
    load: Load, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(emlio.PlanMismatchError, match=named):
        load(**options).load_state_dict(load().state_dict())


def test_a_state_of_other_data_is_refused(load: Load, tmp_path: Path) -> None:
    other = load(shards.write_labelled(tmp_path, 99))
    with pytest.raises(emlio.PlanMismatchError, match="records is 100 here and 99 in the state"):
        load().load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 2}, emlio.UnsupportedError),
        ({"step": 14}, emlio.InvalidArgumentError),
        ({"step": -1}, emlio.InvalidArgumentError),
        ({"epoch": "1"}, emlio.InvalidArgumentError),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(
    load: Load, change: dict[str, Any], error: type[Exception]
) -> None:
    loader = load()
    with pytest.raises(error):
        loader.load_state_dict({**loader.state_dict(), **change})
    with pytest.raises(emlio.InvalidArgumentError, match="not the state"):
        loader.load_state_dict({})
    with pytest.raises(emlio.InvalidArgumentError, match="has no epoch"):
        loader.load_state_dict({"version": 1})
    assert len(list(loader)) == 13


@pytest.mark.parametrize("duplicate", [copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_pickled_loader_is_its_options_and_its_position(
    load: Load, duplicate: Callable[[Loader], Loader]
) -> None:
    loader = load(shuffle="full", seed=7)
    fresh = duplicate(loader)
    whole = ids(loader)
    assert ids(fresh) == whole
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    with duplicate(loader) as moved:
        assert ids(moved) == ids(batches)
        assert next(iter(moved)).epoch == 2
    fresh.close()


def test_loaders_in_one_process_do_not_disturb_each_other(load: Load, tmp_path: Path) -> None:
    other = load(shards.write_labelled(tmp_path, 40), batch_size=3)
    dropped = load()
    next(iter(dropped))
    seen: tuple[list[int], list[int]] = ([], [])
    first, second = iter(load()), iter(other)
    while (a := next(first, None)) is not None:
        seen[0].extend(ids([a]))
        if (b := next(second, None)) is not None:
            seen[1].extend(ids([b]))
        dropped.close()
    seen[1].extend(ids(second))
    assert seen == (list(range(100)), list(range(40)))


def test_ranks_from_the_environment_share_the_data(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "4")
        loader = load(batch_size=3, shuffle="full", tail="drop")
        assert (loader.rank, loader.world_size) == (rank, 4)
        steps.append([ids([batch]) for batch in loader])
    assert [len(rank_steps) for rank_steps in steps] == [8] * 4
    every = [number for rank_steps in steps for step in rank_steps for number in step]
    assert len(every) == len(set(every)) == 96


def test_a_last_step_with_fewer_records_than_ranks_names_the_choices(load: Load) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match="drop"):
        load(global_batch_size=33, rank=0, world_size=3)


def test_sources_are_paths_patterns_or_several(load: Load, hundred: Path) -> None:
    assert len(ids(load(hundred))) == 100
    assert len(ids(load(str(hundred)))) == 100
    assert len(ids(load(f"{hundred}/s-*"))) == 100
    assert ids(load([hundred / "s-3.tfrecord", str(hundred / "s-1.tfrecord")])) == [
        *range(25, 50),
        *range(75, 100),
    ]


def test_odd_paths(load: Load, tmp_path: Path) -> None:
    folder = shards.write_labelled(tmp_path / "дані with space", 10)
    # A name that is not UTF-8, as Python holds it.
    (folder / "s-0.tfrecord").rename(folder / "s-\udcff.tfrecord")
    loader = load(folder)
    assert sorted(ids(loader)) == list(range(10))


def test_a_pattern_without_a_match_is_named(load: Load, tmp_path: Path) -> None:
    with pytest.raises(emlio.NotFoundError, match="nothing-"):
        load(tmp_path / "nothing-*")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": None}, "batch_size"),
        ({"batch_size": 8, "global_batch_size": 8}, "batch_size"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.5}, "batch_size is an integer"),
        ({"batch_size": True}, "batch_size is an integer"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**64}, "seed="),
        ({"shuffle": "ful"}, "ful"),
        ({"tail": "cut"}, "cut"),
        ({"shuffle_block": 5}, "shuffle 'block'"),
        ({"shuffle": "full", "shuffle_window": "1MiB"}, "shuffle 'block'"),
        ({"shuffle": "block", "shuffle_block": 0}, "shuffle_block=0"),
        ({"shuffle": "block", "shuffle_block": True}, "shuffle_block is an integer"),
        ({"shuffle": "block", "shuffle_block": ""}, "shuffle_block is an integer"),
        ({"shuffle": "block", "shuffle_window": "4M"}, "shuffle_window.*'4M' is no size"),
        ({"shuffle": "block", "shuffle_block": 5, "shuffle_window": 4}, "smaller than a block"),
        ({"features": {"id": "int32"}}, "int32"),
        ({"features": ["id"]}, "mapping"),
        ({"features": "id"}, "mapping"),
        ({"rank": 1}, "world_size"),
        ({"rank": 2, "world_size": 2}, "rank=2"),
        ({"epochs": 0}, "epochs=0"),
        ({"streams": 0}, "streams=0"),
        ({"prefetch_mb": 0}, "prefetch_mb"),
        ({"timeout_s": "1"}, "timeout_s"),
        ({"max_record_mb": -1}, "max_record_mb"),
        ({"workers": -1}, "workers=-1"),
    ],
)
def test_options_that_cannot_work_are_named(
    hundred: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match=message) as raised:
        Loader(hundred, **{"batch_size": 8, **options})
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("sources", [[], 7, [7], None, b"bytes"])
def test_sources_that_are_none(sources: Any) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match="source"):
        Loader(sources, batch_size=8)


def test_options_are_keyword_only(hundred: Path) -> None:
    with pytest.raises(TypeError):
        Loader(hundred, 8)  # type: ignore[call-arg]


def test_numpy_integers_are_integers(load: Load) -> None:
    assert len(load(batch_size=np.int64(10), seed=np.uint64(3))) == 10


def test_a_closed_loader_says_so(load: Load) -> None:
    with load() as loader:
        batches = iter(loader)
        batch = next(batches)
    loader.close()
    assert ids([batch]) == list(range(8))
    assert loader.stats()["batches"] == 1
    for use in (lambda: next(batches), lambda: iter(loader), lambda: len(loader)):
        with pytest.raises(emlio.CancelledError, match="closed"):
            use()


def test_indices_tell_where_records_come_from(load: Load) -> None:
    loader = load(shuffle="full")
    for batch in loader:
        assert batch.indices.tolist() == batch["id"].tolist()
    assert loader.records == 100
    assert loader.locate(0) == ("s-0.tfrecord", 0)
    assert loader.locate(99) == ("s-3.tfrecord", 24)
    assert loader.locate(batch.indices[0])[0].startswith("s-")
    with pytest.raises(IndexError):
        loader.locate(100)


def test_stats_count_what_was_handed_out(load: Load) -> None:
    loader = load()
    payload_bytes = sum(batch.payload_bytes for batch in loader)
    stats = loader.stats()
    assert payload_bytes == sum(len(shards.labelled(number)) for number in range(100))
    assert stats["batches"] == 13
    assert stats["records"] == 100
    assert stats["payload_bytes"] == payload_bytes
    assert stats["bad_records"] == 0
    assert stats["bad_records_of_shard"] == {}
    assert 0 < stats["wait_share"] <= 1
    assert 0 < stats["time_to_first_batch_s"] < 60
    assert 0 < stats["wait_s"] <= stats["elapsed_s"]
    json.dumps(stats)


def test_known_epochs_are_read_like_any_other(load: Load) -> None:
    loader = load(shuffle="full", epochs=2)
    again = load(shuffle="full")
    assert [ids(loader), ids(loader)] == [ids(again), ids(again)]


def test_repr_names_the_source(load: Load, hundred: Path) -> None:
    assert str(hundred) in repr(load())
