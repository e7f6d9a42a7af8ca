# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What a batch hands out: types, shapes and lifetimes."""

import gc
import pickle
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emlio
import shards
from emlio import Batch, BytesColumn, Loader, Ragged

Load = Callable[..., Loader]


def one_batch(tmp_path: Path, payloads: list[bytes], features: Mapping[str, str]) -> Batch:
    shards.write_shard(tmp_path / "shard", payloads)
    with Loader(tmp_path / "shard", batch_size=len(payloads), features=features) as loader:
        return next(iter(loader))


@pytest.fixture
def batch(load: Load) -> Batch:
    return next(iter(load()))


def test_scalars_are_arrays_of_one_dimension(batch: Batch) -> None:
    assert batch["id"].dtype == np.int64
    assert batch["id"].tolist() == list(range(8))
    assert batch["weight"].dtype == np.float32
    assert batch["weight"].tolist() == [number / 2 for number in range(8)]


def test_bytes_are_a_sequence_of_arrays(batch: Batch) -> None:
    column = batch["payload"]
    assert isinstance(column, BytesColumn)
    assert len(column) == 8
    value = column[3]
    assert (value.dtype, value.shape) == (np.dtype(np.uint8), (20,))
    assert not value.flags.writeable
    assert value.tobytes() == b"\x03" * 20
    assert column[-1].tobytes() == b"\x07" * 20
    assert column[np.int64(2)].tobytes() == b"\x02" * 20
    assert [int(item[0]) for item in column] == list(range(8))
    assert [int(item[0]) for item in column[1:7:2]] == [1, 3, 5]
    assert [int(item[0]) for item in column[::-3]] == [7, 4, 1]
    assert column[9:] == []
    assert column.tolist() == [bytes([number]) * 20 for number in range(8)]
    for index in (8, -9):
        with pytest.raises(IndexError):
            column[index]
    with pytest.raises(TypeError):
        column["0"]  # type: ignore[call-overload]


def test_sequences_are_pickled_as_lists(batch: Batch, tmp_path: Path) -> None:
    copied = pickle.loads(pickle.dumps(batch["payload"]))
    assert isinstance(copied, list)
    assert [value.tobytes() for value in copied] == batch["payload"].tolist()
    payloads = [shards.example({"x": shards.int64_list(x)}) for x in ([1, 2], [], [3])]
    shards.write_shard(tmp_path / "shard", payloads)
    (ragged,) = Loader(tmp_path / "shard", batch_size=3, features={"x": "int64[]"})
    assert [row.tolist() for row in pickle.loads(pickle.dumps(ragged["x"]))] == [[1, 2], [], [3]]
    with pytest.raises(TypeError):
        pickle.dumps(batch)


def test_records_are_the_payloads(batch: Batch) -> None:
    assert batch.records.tolist() == [shards.labelled(number) for number in range(8)]
    assert batch.payload_bytes == sum(map(len, batch.records))
    assert len(batch) == 8


def test_parsed_bytes_lie_inside_the_records(batch: Batch) -> None:
    assert np.shares_memory(batch.records[5], batch["payload"][5])
    assert not np.shares_memory(batch.records[5], batch["payload"][4])


def test_a_batch_is_like_a_dict_of_columns(batch: Batch) -> None:
    assert batch.keys() == list(batch) == ["payload", "id", "weight"]
    assert "id" in batch
    assert "other" not in batch
    assert 7 not in batch
    assert dict(batch).keys() == {"payload", "id", "weight"}
    with pytest.raises(KeyError, match=r"no feature 'other'.*'payload', 'id', 'weight'"):
        batch["other"]
    with pytest.raises(KeyError, match="no feature 'other'"):
        batch.present("other")
    assert "step 0, 8 records" in repr(batch)


def test_without_features_there_are_records_only(load: Load) -> None:
    batch = next(iter(load(features=None)))
    assert batch.keys() == []
    assert batch.records[0].tobytes() == shards.labelled(0)
    with pytest.raises(KeyError, match="give features to the Loader"):
        batch["id"]


def test_indices_are_unsigned_and_fixed(batch: Batch) -> None:
    assert batch.indices.dtype == np.uint64
    assert batch.indices.tolist() == list(range(8))
    assert not batch.indices.flags.writeable


def test_numbers_may_be_changed_in_place(batch: Batch) -> None:
    before = batch.records.tolist()
    batch["weight"][:] = 0
    assert batch["weight"].sum() == 0
    assert batch.records.tolist() == before


def test_fixed_length_columns_have_two_dimensions(tmp_path: Path) -> None:
    payloads = [
        shards.example(
            {
                "box": shards.float_list([n, n + 0.5]),
                "shape": shards.int64_list([n, n, n]),
                "views": shards.bytes_list([b"left%d" % n, b""]),
            }
        )
        for n in range(3)
    ]
    features = {"box": "float[2]", "shape": "int64[3]", "views": "bytes[2]"}
    batch = one_batch(tmp_path, payloads, features)
    assert batch["box"].tolist() == [[0, 0.5], [1, 1.5], [2, 2.5]]
    assert batch["box"].flags.c_contiguous
    assert batch["shape"].shape == (3, 3)
    views = batch["views"]
    assert [[value.tobytes() for value in row] for row in views] == [
        [b"left0", b""],
        [b"left1", b""],
        [b"left2", b""],
    ]
    assert views.row_offsets.tolist() == [0, 2, 4, 6]


def test_ragged_columns(tmp_path: Path) -> None:
    rows: list[list[int]] = [[1, 2, 3], [], [-(2**63), 2**63 - 1]]
    payloads = [
        shards.example(
            {
                "tokens": shards.int64_list(row),
                "scores": shards.float_list(row),
                "words": shards.bytes_list([str(value).encode() for value in row]),
            }
        )
        for row in rows
    ]
    features = {"tokens": "int64[]", "scores": "float[]", "words": "bytes[]"}
    batch = one_batch(tmp_path, payloads, features)
    tokens = batch["tokens"]
    assert isinstance(tokens, Ragged)
    assert len(tokens) == 3
    assert isinstance(tokens.values, np.ndarray)
    assert tokens.values.tolist() == [1, 2, 3, -(2**63), 2**63 - 1]
    assert tokens.row_offsets.dtype == np.int64
    assert tokens.row_offsets.tolist() == [0, 3, 3, 5]
    assert [row.tolist() for row in tokens] == rows
    assert tokens[-1].tolist() == rows[2]
    assert np.shares_memory(tokens[0], tokens.values)
    with pytest.raises(IndexError):
        tokens[3]
    assert batch["scores"][0].dtype == np.float32
    assert [[bytes(value) for value in row] for row in batch["words"]] == [
        [b"1", b"2", b"3"],
        [],
        [str(value).encode() for value in rows[2]],
    ]
    words = batch["words"].values
    assert isinstance(words, BytesColumn)
    assert len(words) == 5


def test_absent_features_are_marked(tmp_path: Path) -> None:
    full = {"id": shards.int64_list([5]), "image": shards.bytes_list([b"x"])}
    payloads = [shards.example(full), shards.example({})]
    features = {"id": "int64?", "image": "bytes?", "tags": "int64[]?"}
    batch = one_batch(tmp_path, payloads, features)
    assert batch.present("id").dtype == np.bool_
    assert batch.present("id").tolist() == batch.present("image").tolist() == [True, False]
    assert batch.present("tags").tolist() == [False, False]
    assert batch["id"].tolist() == [5, 0]
    assert batch["image"].tolist() == [b"x", b""]
    assert batch["image"][1].shape == (0,)
    assert batch["tags"].row_offsets.tolist() == [0, 0, 0]
    assert batch["tags"].values.shape == (0,)
    assert batch.is_optional("id")
    # An empty image is an image.
    batch = one_batch(tmp_path, [shards.example({"id": shards.int64_list([0])})], {"id": "int64"})
    assert batch.present("id").tolist() == [True]
    assert not batch.is_optional("id")


def test_a_record_without_a_wanted_feature_is_named(tmp_path: Path) -> None:
    with pytest.raises(emlio.Error, match="'missing'"):
        one_batch(tmp_path, [shards.labelled(0)], {"missing": "int64"})
    with pytest.raises(emlio.CorruptError):
        one_batch(tmp_path, [b"\xff" * 20], {"id": "int64"})


def test_names_and_values_need_not_be_ascii(tmp_path: Path) -> None:
    every_byte = bytes(range(256))
    payload = shards.example({"ключ": shards.bytes_list([every_byte])})
    batch = one_batch(tmp_path, [payload], {"ключ": "bytes"})
    assert batch["ключ"].tolist() == [every_byte]


def test_any_payload_in_raw_mode(tmp_path: Path) -> None:
    payloads = [b"", b"\x00" * 1000, bytes(range(256))]
    batch = one_batch(tmp_path, payloads, {})
    assert batch.records.tolist() == payloads
    assert batch.records[0].shape == (0,)


def test_views_outlive_batch_and_loader(hundred: Path) -> None:
    loader = Loader(hundred, batch_size=100, features=shards.FEATURES)
    batch = next(iter(loader))
    column = batch["payload"]
    views: dict[str, Any] = {
        "id": batch["id"],
        "indices": batch.indices,
        "payload": column[50],
        "record": batch.records[7],
    }
    loader.close()
    del loader, batch, column
    gc.collect()
    # Memory that was given back would be used again.
    other = Loader(hundred, batch_size=100, features=shards.FEATURES, shuffle="full")
    kept = [batch for _ in range(5) for batch in other]
    assert views["id"].tolist() == views["indices"].tolist() == list(range(100))
    assert views["payload"].tobytes() == bytes([50]) * 20
    assert views["record"].tobytes() == shards.labelled(7)
    assert len(kept) == 5


class Lent:
    """What NumPy takes a DLPack capsule from."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_bytes_are_lent_by_dlpack_without_a_copy(batch: Batch) -> None:
    column = batch["payload"]
    capsules = column.to_dlpack()
    assert len(capsules) == 8
    for capsule, value in zip(capsules, column, strict=True):
        taken = np.from_dlpack(Lent(capsule))
        assert (taken.dtype, taken.shape) == (value.dtype, value.shape)
        assert taken.ctypes.data == value.ctypes.data
        assert np.array_equal(taken, value)
        with pytest.raises((ValueError, RuntimeError, BufferError)):
            np.from_dlpack(Lent(capsule))  # each can be used once


def test_empty_bytes_are_lent_too(tmp_path: Path) -> None:
    payload = shards.example({"data": shards.bytes_list([b""])})
    batch = one_batch(tmp_path, [payload], {"data": "bytes"})
    (capsule,) = batch["data"].to_dlpack()
    assert np.from_dlpack(Lent(capsule)).shape == (0,)


def test_lent_bytes_outlive_batch_and_loader(hundred: Path) -> None:
    loader = Loader(hundred, batch_size=100, features=shards.FEATURES)
    capsules = next(iter(loader))["payload"].to_dlpack()
    used = np.from_dlpack(Lent(capsules[50]))
    loader.close()
    del loader
    gc.collect()
    # Memory that was given back would be used again.
    other = Loader(hundred, batch_size=100, features=shards.FEATURES, shuffle="full")
    kept = [batch for _ in range(5) for batch in other]
    assert used.tobytes() == bytes([50]) * 20
    assert np.from_dlpack(Lent(capsules[7])).tobytes() == bytes([7]) * 20
    assert len(kept) == 5


def test_lent_bytes_let_go_of_their_batch_whether_they_were_used_or_not(tmp_path: Path) -> None:
    shards.write_shard(tmp_path / "shard", [bytes(1 << 20)] * 8)
    loader = Loader(tmp_path / "shard", batch_size=8, prefetch_mb=16)

    def lend() -> None:
        for batch in loader:
            capsules = batch.records.to_dlpack()
            np.from_dlpack(Lent(capsules[0]))

    def resident_bytes() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    for _ in range(5):
        lend()
    before = resident_bytes()
    for _ in range(30):  # 240 MiB if all were kept
        lend()
    assert resident_bytes() - before < 64 << 20


def test_views_hold_on_to_what_made_them_and_let_go(batch: Batch) -> None:
    before = sys.getrefcount(batch)
    views = [batch["id"], batch["weight"], batch.indices]
    assert sys.getrefcount(batch) == before + 3
    del views
    assert sys.getrefcount(batch) == before
    column = batch["payload"]
    before = sys.getrefcount(column)
    values = column[:]
    assert sys.getrefcount(column) == before + 8
    del values
    assert sys.getrefcount(column) == before
