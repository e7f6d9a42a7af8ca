# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Very large and very small records, end to end over TCP."""

import hashlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shards
from emlio import Loader
from processes import Daemon, emlio_executable

MIB = 1 << 20
HEADER, FRAMING = 12, 16  # bytes of a record in its shard beside its payload


def synthetic(folder: Path, records: int, record_bytes: int, shards: int, *options: str) -> None:
    subprocess.run(
        [
            *(emlio_executable(), "convert", "synthetic", str(folder), "--records", str(records)),
            *("--record-bytes", str(record_bytes), "--shards", str(shards), *options),
        ],
        check=True,
        capture_output=True,
    )


def digest_in_shard(folder: Path, record: int, record_bytes: int) -> str:
    [shard] = folder.iterdir()
    with shard.open("rb") as file:
        file.seek(record * (record_bytes + FRAMING) + HEADER)
        return hashlib.sha256(file.read(record_bytes)).hexdigest()


@pytest.mark.parametrize("prefetch_mb", [256, 16], ids=["within the budget", "over the budget"])
def test_a_record_of_100_mb_comes_through(
    tmp_path: Path, serve: Callable[..., Daemon], prefetch_mb: int
) -> None:
    size = 100_000_000
    synthetic(tmp_path / "data", 1, size, 1)
    daemon = serve(tmp_path / "data")
    with Loader(daemon.url, batch_size=1, prefetch_mb=prefetch_mb) as loader:
        [batch] = loader
        [record] = batch.records
        assert hashlib.sha256(bytes(record)).hexdigest() == digest_in_shard(
            tmp_path / "data", 0, size
        )
        stats = loader.stats()
        assert stats["chunks"] >= size / (4 * MIB)
        assert stats["max_ready_bytes"] <= max(size, prefetch_mb * MIB)


def test_large_and_empty_records_share_batches(
    tmp_path: Path, serve: Callable[..., Daemon]
) -> None:
    sizes = [(0, 1, 100, MIB + 7)[i % 4] if i < 8 else i % 3 for i in range(300)]
    payloads = [bytes([i % 251]) * size for i, size in enumerate(sizes)]
    data = tmp_path / "data"
    data.mkdir()
    shards.write_shard(data / "s-0", payloads[:150])
    shards.write_shard(data / "s-1", payloads[150:])
    for shuffle in ("none", "full"):
        with Loader(serve(data).url, batch_size=7, shuffle=shuffle, prefetch_mb=1) as loader:
            got = {
                int(index): bytes(record)
                for batch in loader
                for index, record in zip(batch.indices, batch.records, strict=True)
            }
        assert got == dict(enumerate(payloads))


def test_a_batch_larger_than_the_prefetch_limit_is_one_batch(
    tmp_path: Path, serve: Callable[..., Daemon]
) -> None:
    records, size, batch_size = 200, 1_500_000, 100
    synthetic(tmp_path / "data", records, size, 2)
    with Loader(serve(tmp_path / "data").url, batch_size=batch_size, prefetch_mb=64) as loader:
        ids = []
        for batch in loader:
            assert len(batch) == batch_size
            assert batch.payload_bytes == batch_size * size
            ids += [int.from_bytes(bytes(record[:8]), "little") for record in batch.records]
            assert {len(record) for record in batch.records} == {size}
        assert ids == list(range(records))
        stats = loader.stats()
        assert stats["chunks"] >= records * size / (4 * MIB)
        # Credit, and the batch that is handed out next.
        assert stats["max_ready_bytes"] <= 64 * MIB + batch_size * size


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A million Examples of 100 bytes with the features "id" and "data", in four shards."""
    folder = tmp_path_factory.mktemp("million") / "data"
    synthetic(folder, 1_000_000, 100, 4, "--example")
    return folder


def test_a_million_tiny_records_come_once(million: Path, serve: Callable[..., Daemon]) -> None:
    with Loader(
        serve(million).url, batch_size=1024, shuffle="full", features={"id": "int64"}
    ) as loader:
        begin = time.monotonic()
        ids = np.concatenate([batch["id"] for batch in loader])
        seconds = time.monotonic() - begin
    print(f"{len(ids) / seconds:.0f} records/s")
    assert np.array_equal(np.sort(ids), np.arange(1_000_000))


@pytest.mark.parametrize("shuffle", ["none", "full"])
def test_resuming_late_needs_no_more_data_than_beginning(
    million: Path, serve: Callable[..., Daemon], shuffle: str
) -> None:
    prefetch_mb, batch_size = 4, 1024
    daemon = serve(million)
    for share in (0.0, 0.9):
        options: dict[str, Any] = {"shuffle": shuffle, "features": {"id": "int64"}}
        with Loader(
            daemon.url, batch_size=batch_size, prefetch_mb=prefetch_mb, **options
        ) as loader:
            step = int(len(loader) * share)
            loader.load_state_dict({**loader.state_dict(), "step": step})
            begin = time.monotonic()
            batch = next(iter(loader))
            print(f"{shuffle}, {share:.0%}: first batch after {time.monotonic() - begin:.3f} s")
            assert (batch.epoch, batch.step) == (0, step)
            if shuffle == "none":
                assert batch["id"][0] == step * batch_size
            stats = loader.stats()
            assert stats["payload_bytes"] == batch.payload_bytes
            # What came before the first batch was handed out: credit, and that batch.
            assert stats["max_ready_bytes"] <= prefetch_mb * MIB + batch.payload_bytes
