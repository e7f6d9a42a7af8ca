# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Batches in torch's DataLoader."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import emlio
import shards
from processes import Daemon, run_python

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

from emlio.torch import DataLoader as DealingLoader  # noqa: E402
from emlio.torch import IterableDataset, RaggedTensor  # noqa: E402


@pytest.fixture
def dataset(hundred: Path) -> IterableDataset:
    return IterableDataset(hundred, batch_size=8, features=shards.FEATURES)


def test_a_data_loader_yields_tensors(dataset: IterableDataset) -> None:
    loader = DataLoader(dataset, batch_size=None, num_workers=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(2):
            batches = list(loader)
            assert len(loader) == len(batches) == 13
            assert torch.cat([batch["id"] for batch in batches]).tolist() == list(range(100))
            assert dataset.loader.epoch == epoch + 1
    first = batches[0]
    assert list(first) == ["payload", "id", "weight"]
    assert (first["id"].dtype, first["weight"].dtype) == (torch.int64, torch.float32)
    assert isinstance(first["payload"], emlio.BytesColumn)
    assert batches[-1]["id"].shape == (4,)


@pytest.mark.parametrize("shuffle", ["none", "full", "block"])
@pytest.mark.parametrize("tail", ["keep", "drop", "pad"])
def test_len_is_what_a_data_loader_yields(hundred: Path, shuffle: str, tail: str) -> None:
    options: dict[str, Any] = {"features": {"id": "int64"}, "shuffle": shuffle, "tail": tail}
    dataset = IterableDataset(hundred, batch_size=8, **options)
    loader = DataLoader(dataset, batch_size=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns where len() is wrong
        items = list(loader)
    assert len(dataset) == len(loader) == len(items) == (12 if tail == "drop" else 13)
    assert len(items[-1]["id"]) == (4 if tail == "keep" else 8)
    assert all((emlio.torch.VALID in item) == (tail == "pad") for item in items)
    if tail == "pad":
        valid = torch.cat([item["id"][item[emlio.torch.VALID]] for item in items])
        assert sorted(valid.tolist()) == list(range(100))
        assert items[0][emlio.torch.VALID].dtype == torch.bool


def test_tensors_share_the_memory_of_the_batch_and_keep_it(dataset: IterableDataset) -> None:
    raw = next(iter(IterableDataset(dataset.loader, convert=False)))
    tensor = emlio.torch.to_tensors(raw)["id"]
    assert tensor.data_ptr() == raw["id"].__array_interface__["data"][0]
    dataset.loader.close()
    del raw, dataset
    assert tensor.tolist() == list(range(8))


def test_a_transform_gets_what_would_be_yielded(hundred: Path) -> None:
    options: dict[str, Any] = {"batch_size": 50, "features": {"id": "int64"}}
    tensors = IterableDataset(hundred, transform=lambda item: item["id"].sum().item(), **options)
    assert list(tensors) == [1225, 3725]
    batches = IterableDataset(hundred, convert=False, transform=len, **options)
    assert list(batches) == [50, 50]


def test_without_features_batches_stay_batches(hundred: Path) -> None:
    batch = next(iter(DataLoader(IterableDataset(hundred, batch_size=8), batch_size=None)))
    assert isinstance(batch, emlio.Batch)


def test_ragged_and_absent_features(tmp_path: Path) -> None:
    payloads = [
        shards.example({"tokens": shards.int64_list([1, 2])}),
        shards.example({"tokens": shards.int64_list([]), "label": shards.int64_list([7])}),
    ]
    shards.write_shard(tmp_path / "shard", payloads)
    features = {"tokens": "int64[]", "label": "int64?"}
    item = next(iter(IterableDataset(tmp_path / "shard", batch_size=2, features=features)))
    assert isinstance(item["tokens"], RaggedTensor)
    assert item["tokens"].values.tolist() == [1, 2]
    assert item["tokens"].row_offsets.tolist() == [0, 2, 2]
    assert item["label"].tolist() == [0, 7]
    assert item["label?"].tolist() == [False, True]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_worker_processes_are_refused_with_a_reason(dataset: IterableDataset, context: str) -> None:
    loader = DataLoader(
        dataset, batch_size=None, num_workers=1, multiprocessing_context=context, timeout=60
    )
    with pytest.raises(emlio.UnsupportedError, match="num_workers=0"):
        next(iter(loader))


WORKERS_TIMEOUT_S = 60  # against hangs only


def dealing(source: Any, workers: int, batch_size: int = 8, **options: Any) -> Any:
    dataset = IterableDataset(source, batch_size=batch_size, features={"id": "int64"}, **options)
    timeout = WORKERS_TIMEOUT_S if workers else 0
    return DealingLoader(dataset, num_workers=workers, timeout=timeout)


def ids(items: Any) -> list[int]:
    return [number for item in items for number in item["id"].tolist()]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_workers_change_neither_batches_nor_their_number(
    serve: Callable[[Path], Daemon], hundred: Path, workers: int
) -> None:
    url = serve(hundred).url
    for shuffle, tail in [("none", "keep"), ("full", "drop"), ("block", "pad"), ("full", "keep")]:
        expected = dealing(url, 0, shuffle=shuffle, tail=tail)
        loader = dealing(url, workers, shuffle=shuffle, tail=tail)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Length of")  # torch's, where it is wrong
            for _ in range(2):
                items = list(loader)
                assert len(loader) == len(items) == (12 if tail == "drop" else 13)
                assert sum(len(item["id"]) == 8 for item in items) == 13 - (tail != "pad")
                assert ids(items) == ids(expected)


@pytest.mark.parametrize(("workers", "world"), [(2, 1), (8, 1), (1, 4), (2, 4)])
def test_workers_of_all_ranks_read_every_record_once(
    tmp_path: Path, workers: int, world: int
) -> None:
    folder = shards.write_labelled(tmp_path / "data", 2000)
    every = []
    for rank in range(world):
        options: dict[str, Any] = {"rank": rank, "world_size": world, "shuffle": "full"}
        every += ids(dealing(folder, workers, 64, **options))
    assert sorted(every) == list(range(2000))


def test_more_workers_than_batches(hundred: Path) -> None:
    assert ids(dealing(hundred, 4, 50)) == list(range(100))


def test_a_pass_of_workers_that_is_left_counts_as_read(hundred: Path) -> None:
    loader = dealing(hundred, 2, shuffle="full")
    first = iter(loader)
    assert ids([next(first)]) == ids(dealing(hundred, 0, shuffle="full"))[:8]
    assert loader.dataset.loader.epoch == 0
    second = list(loader)
    with pytest.raises(emlio.CancelledError, match="another one was begun"):
        next(first)
    assert loader.dataset.loader.epoch == 2
    loader.dataset.set_epoch(1)
    assert ids(loader) == ids(second)
    assert next(iter(loader.dataset))["id"].tolist() != second[0]["id"].tolist()


def test_the_state_of_workers_is_exact_at_any_moment(hundred: Path) -> None:
    whole = ids(dealing(hundred, 0, shuffle="full"))
    loader = dealing(hundred, 4, shuffle="full")
    items = iter(loader)
    taken = ids([next(items) for _ in range(2)])
    for more in (0, 1, 3):
        resumed = dealing(hundred, 4, shuffle="full")
        resumed.load_state_dict(loader.state_dict())
        assert resumed.state_dict() == loader.state_dict()
        loader, items = resumed, iter(resumed)
        taken += ids([next(items) for _ in range(more)])
    assert taken == whole[: 8 * 6]
    # The rest without workers, and the state behind the last batch.
    alone = dealing(hundred, 0, shuffle="full")
    alone.load_state_dict(loader.state_dict())
    assert taken + ids(alone) == whole
    taken += ids(items)
    assert taken == whole
    assert (loader.state_dict()["epoch"], loader.state_dict()["step"]) == (1, 0)


def test_spawned_workers_get_bytes_as_arrays(hundred: Path) -> None:
    dataset = IterableDataset(hundred, batch_size=50, features=shards.FEATURES)
    alone = list(dataset)
    loader = DealingLoader(
        dataset, num_workers=2, multiprocessing_context="spawn", timeout=WORKERS_TIMEOUT_S
    )
    items = list(loader)
    assert ids(items) == list(range(100))
    for item, expected in zip(items, alone, strict=True):
        assert [value.tobytes() for value in item["payload"]] == expected["payload"].tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_collate_fn_gets_what_the_data_set_yields(hundred: Path, workers: int) -> None:
    dataset = IterableDataset(hundred, batch_size=50, features={"id": "int64"})
    loader = DealingLoader(dataset, num_workers=workers, collate_fn=lambda item: item["id"].sum())
    assert [int(item) for item in loader] == [1225, 3725]


def test_an_error_in_a_worker_arrives_with_its_kind_and_place(tmp_path: Path) -> None:
    folder = shards.write_labelled(tmp_path / "data", 100)
    shard = sorted(folder.iterdir())[0]
    content = bytearray(shard.read_bytes())
    content[20] ^= 1
    shard.write_bytes(content)
    with pytest.raises(emlio.CorruptError, match=shard.name):
        list(dealing(folder, 2))


def test_a_batch_cannot_leave_a_worker(hundred: Path) -> None:
    dataset = IterableDataset(hundred, batch_size=8, convert=False)
    with pytest.raises(emlio.UnsupportedError, match="cannot leave a worker"):
        list(DealingLoader(dataset, num_workers=1, timeout=WORKERS_TIMEOUT_S))


def test_options_without_a_meaning_for_dealt_batches_are_refused(
    dataset: IterableDataset, hundred: Path
) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match="IterableDataset"):
        DealingLoader(hundred)  # type: ignore[arg-type]
    with pytest.raises(emlio.InvalidArgumentError, match="batch_size"):
        DealingLoader(dataset, batch_size=4)
    with pytest.raises(emlio.InvalidArgumentError, match="persistent_workers"):
        DealingLoader(dataset, num_workers=1, persistent_workers=True)


def test_a_state_goes_through_the_data_set(dataset: IterableDataset, hundred: Path) -> None:
    batches = iter(DataLoader(dataset, batch_size=None))
    for _ in range(5):
        next(batches)
    resumed = IterableDataset(hundred, batch_size=8, features=shards.FEATURES)
    resumed.load_state_dict(dataset.state_dict())
    rest = list(DataLoader(resumed, batch_size=None))
    assert torch.cat([batch["id"] for batch in rest]).tolist() == list(range(40, 100))


def test_stateful_data_loader(dataset: IterableDataset, hundred: Path) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")

    def stateful(dataset: IterableDataset) -> Any:
        return torchdata.StatefulDataLoader(dataset, batch_size=None, num_workers=0)

    saver = stateful(dataset)
    batches = iter(saver)
    for _ in range(5):
        next(batches)
    state = saver.state_dict()
    resumed = stateful(IterableDataset(hundred, batch_size=8, features=shards.FEATURES))
    resumed.load_state_dict(state)
    rest = list(resumed)
    assert torch.cat([batch["id"] for batch in rest]).tolist() == list(range(40, 100))
    assert len(list(resumed)) == 13


def test_options_beside_a_loader_are_refused(dataset: IterableDataset) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match="batch_size"):
        IterableDataset(dataset.loader, batch_size=4)


RANKS = """
    import os
    import sys
    import torch.distributed
    import torch.multiprocessing
    import emlio.torch

    def run(rank, path, seeds, store):
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=len(seeds))
        dataset = emlio.torch.IterableDataset(
            path, batch_size=4, features={"id": "int64"}, shuffle="full", tail="drop",
            seed=int(seeds[rank]))
        try:
            ids = torch.cat([item["id"] for item in dataset])
        except emlio.PlanMismatchError as error:
            os.write(1, f"refused: {error}\\n".encode())  # whole lines, whoever else writes
        else:
            every = [torch.empty_like(ids) for _ in seeds]
            torch.distributed.all_gather(every, ids)
            if rank == 0:
                print(len(set(torch.cat(every).tolist())), flush=True)
        torch.distributed.destroy_process_group()

    torch.multiprocessing.start_processes(
        run, sys.argv[1:], nprocs=len(sys.argv[2]), start_method="fork")
"""


def test_ranks_of_torch_distributed_share_the_data(hundred: Path, tmp_path: Path) -> None:
    status, out, err = run_python(RANKS, hundred, "00", tmp_path / "store", timeout_s=120)
    assert status == 0, err
    assert out == "96\n"


def test_ranks_of_torch_distributed_compare_their_plans(hundred: Path, tmp_path: Path) -> None:
    status, out, err = run_python(RANKS, hundred, "01", tmp_path / "store", timeout_s=120)
    assert status == 0, err
    assert out.count("refused: ranks [1] do not read what rank 0 reads") == 2


def test_training_over_tcp_and_locally_is_the_same(
    serve: Callable[[Path], Daemon], hundred: Path
) -> None:
    def losses(source: Any) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        dataset = IterableDataset(
            source, batch_size=10, features=shards.FEATURES, shuffle="full", seed=3
        )
        out = []
        for _ in range(2):
            for batch in DataLoader(dataset, batch_size=None):
                loss = (model(batch["weight"][:, None])[:, 0] - batch["id"]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                out.append(loss.item())
        return out

    remote = losses(serve(hundred).url)
    assert len(remote) == 20
    assert remote == losses(hundred)
