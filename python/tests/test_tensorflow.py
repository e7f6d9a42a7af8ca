# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""TensorFlow reads what we write and we read what TensorFlow writes, value for value."""

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emlio
import shards
from processes import emlio_executable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")
Image = pytest.importorskip("PIL.Image")

INT64 = [-1, 0, 2**40, -(2**63), 2**63 - 1]
FLOAT = [0.0, -0.0, 1.5, 1e-42, float("inf"), -3.4028234663852886e38]
BYTES = [b"a", b"", b"\xff\x00", bytes(range(256)), "ключ".encode()]

# Of each kind: how many values the records have; None for a record without the feature.
COUNTS: list[int | None] = [3, 0, None, 5, 1]
EMLIO_FEATURES = {"ints": "int64[]?", "floats": "float[]?", "strings": "bytes[]?", "id": "int64"}


def expected(count: int | None) -> dict[str, list[Any]]:
    size = count or 0
    return {"ints": INT64[:size], "floats": FLOAT[:size], "strings": BYTES[:size]}


def read_with_emlio(path: Path) -> emlio.Batch:
    with emlio.Loader(path, batch_size=len(COUNTS), features=EMLIO_FEATURES) as loader:
        return next(iter(loader))


def check_emlio(batch: emlio.Batch) -> None:
    assert batch["id"].tolist() == list(range(len(COUNTS)))
    for row, count in enumerate(COUNTS):
        values = expected(count)
        assert batch["ints"][row].dtype == np.int64
        assert batch["ints"][row].tolist() == values["ints"]
        # By their bits: -0.0 is not 0.0.
        assert batch["floats"][row].tobytes() == np.array(values["floats"], np.float32).tobytes()
        assert [value.tobytes() for value in batch["strings"][row]] == values["strings"]
        for name in ("ints", "floats", "strings"):
            assert batch.present(name)[row] == (count is not None)


def parse_with_tensorflow(path: Path) -> list[dict[str, Any]]:
    specs = {
        "ints": tf.io.VarLenFeature(tf.int64),
        "floats": tf.io.VarLenFeature(tf.float32),
        "strings": tf.io.VarLenFeature(tf.string),
        "id": tf.io.FixedLenFeature([], tf.int64),
    }
    data = tf.data.TFRecordDataset(str(path)).map(lambda r: tf.io.parse_single_example(r, specs))
    return [
        {name: value.values.numpy() if name != "id" else value.numpy() for name, value in r.items()}
        for r in data
    ]


def check_tensorflow(records: list[dict[str, Any]]) -> None:
    assert [record["id"] for record in records] == list(range(len(COUNTS)))
    for record, count in zip(records, COUNTS, strict=True):
        values = expected(count)
        assert record["ints"].tolist() == values["ints"]
        assert record["floats"].tobytes() == np.array(values["floats"], np.float32).tobytes()
        assert record["strings"].tolist() == values["strings"]


def tensorflow_example(number: int, count: int | None) -> Any:
    features = {"id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))}
    if count is not None:
        values = expected(count)
        features["ints"] = tf.train.Feature(int64_list=tf.train.Int64List(value=values["ints"]))
        features["floats"] = tf.train.Feature(float_list=tf.train.FloatList(value=values["floats"]))
        features["strings"] = tf.train.Feature(
            bytes_list=tf.train.BytesList(value=values["strings"])
        )
    return tf.train.Example(features=tf.train.Features(feature=features))


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_what_tensorflow_compresses_is_converted(tmp_path: Path, compression: str) -> None:
    payloads = [tensorflow_example(n, count).SerializeToString() for n, count in enumerate(COUNTS)]
    payloads += [b"", os.urandom(3 << 20), bytes(3 << 20)]
    paths = {"": tmp_path / "plain.tfrecord", compression: tmp_path / "compressed.tfrecord"}
    for options, path in paths.items():
        with tf.io.TFRecordWriter(str(path), options) as writer:
            for payload in payloads:
                writer.write(payload)
    with pytest.raises(emlio.UnsupportedError, match="emlio convert recompress"):
        emlio.Loader(paths[compression], batch_size=1)
    for check in ([], ["--check"]):
        convert("recompress", paths[compression], tmp_path / "converted", *check)
    converted = tmp_path / "converted" / "compressed.tfrecord"
    assert converted.read_bytes() == paths[""].read_bytes()
    with emlio.Loader(converted, batch_size=len(payloads)) as loader:
        assert next(iter(loader)).records.tolist() == payloads


def test_we_read_what_tensorflow_writes(tmp_path: Path) -> None:
    path = tmp_path / "tf.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number, count in enumerate(COUNTS):
            writer.write(tensorflow_example(number, count).SerializeToString())
    check_emlio(read_with_emlio(path))
    check_tensorflow(parse_with_tensorflow(path))


@pytest.mark.parametrize("packed", [True, False])
def test_packed_and_unpacked_lists_are_the_same(tmp_path: Path, packed: bool) -> None:
    payloads = []
    for number, count in enumerate(COUNTS):
        features = {"id": shards.int64_list([number], packed)}
        if count is not None:
            values = expected(count)
            features["ints"] = shards.int64_list(values["ints"], packed)
            features["floats"] = shards.float_list(values["floats"], packed)
            features["strings"] = shards.bytes_list(values["strings"])
        payloads.append(shards.example(features))
    path = shards.write_shard(tmp_path / "own.tfrecord", payloads)
    check_emlio(read_with_emlio(path))
    check_tensorflow(parse_with_tensorflow(path))


def test_a_feature_that_comes_twice_is_read_as_tensorflow_reads_it(tmp_path: Path) -> None:
    # What two serialized Examples, one after the other, mean: later entries replace earlier ones.
    first = tensorflow_example(0, 3).SerializeToString()
    second = tensorflow_example(1, 1).SerializeToString()
    path = shards.write_shard(tmp_path / "joined", [first + second])
    (record,) = parse_with_tensorflow(path)
    with emlio.Loader(path, batch_size=1, features=EMLIO_FEATURES) as loader:
        batch = next(iter(loader))
    assert batch["id"].tolist() == [record["id"]] == [1]
    assert batch["ints"][0].tolist() == record["ints"].tolist() == INT64[:1]
    assert [bytes(value) for value in batch["strings"][0]] == record["strings"].tolist()


def test_an_example_sequence_and_any_bytes_in_raw_mode(tmp_path: Path) -> None:
    sequence = tf.train.SequenceExample()
    sequence.context.feature["id"].int64_list.value.append(7)
    sequence.feature_lists.feature_list["f"].feature.add().float_list.value.append(0.5)
    payloads = [sequence.SerializeToString(), os.urandom(1000), b""]
    path = tmp_path / "raw.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in payloads:
            writer.write(payload)
    with emlio.Loader(path, batch_size=3) as loader:
        assert next(iter(loader)).records.tolist() == payloads


def convert(*arguments: object) -> None:
    subprocess.run([emlio_executable(), "convert", *map(str, arguments)], check=True)


def test_tensorflow_reads_converted_images(tmp_path: Path) -> None:
    images: dict[bytes, tuple[str, bytes]] = {}
    for label in ("кот", "dog", "empty set"):
        (tmp_path / "source" / label).mkdir(parents=True)
        for number in range(4):
            path = tmp_path / "source" / label / f"{number}.png"
            Image.new("RGB", (4 + number, 5), (number, 0, 200)).save(path)
            images[f"{label}/{number}.png".encode()] = (label, path.read_bytes())
    convert("imagefolder", tmp_path / "source", tmp_path / "shards", "--shards", 2)
    classes = (tmp_path / "shards" / "labels.txt").read_text().splitlines()
    paths = sorted((tmp_path / "shards").glob("*.tfrecord"))
    assert len(paths) == 2
    specs = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/format": tf.io.FixedLenFeature([], tf.string),
        "image/filename": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        "image/class/text": tf.io.FixedLenFeature([], tf.string),
    }
    data = tf.data.TFRecordDataset([str(path) for path in paths]).batch(64)
    (records,) = [tf.io.parse_example(batch, specs) for batch in data]
    columns = {name: value.numpy().tolist() for name, value in records.items()}
    assert sorted(columns["image/filename"]) == sorted(images)
    for row, name in enumerate(columns["image/filename"]):
        label, content = images[name]
        assert columns["image/encoded"][row] == content
        assert columns["image/format"][row] == b"png"
        assert columns["image/class/text"][row] == label.encode()
        assert classes[columns["image/class/label"][row]] == label

    # And a loader gives the same values in the same order.
    features = {name: "int64" if name.endswith("label") else "bytes" for name in specs}
    with emlio.Loader(tmp_path / "shards/*.tfrecord", batch_size=64, features=features) as loader:
        batch = next(iter(loader))
    assert {name: batch[name].tolist() for name in features} == columns


def test_tensorflow_reads_synthetic_records(tmp_path: Path) -> None:
    convert("synthetic", tmp_path, "--records", 50, "--record-bytes", 300, "--shards", 3)
    paths = sorted(tmp_path.glob("*.tfrecord"))
    data = tf.data.TFRecordDataset([str(path) for path in paths])
    with emlio.Loader(tmp_path / "*.tfrecord", batch_size=50) as loader:
        batch = next(iter(loader))
    assert batch.records.tolist() == [record.numpy() for record in data]
    assert {len(record) for record in batch.records} == {300}
