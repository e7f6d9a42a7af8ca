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
