# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""`emlio inspect`: features and records that TensorFlow wrote, other files, damage."""

from __future__ import annotations

import ast
import base64
import fcntl
import gzip
import io
import json
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emlio as package
from command_line import (
    DEADLINE_S,
    FRAMED_BYTES,
    RECORD_BYTES,
    RECORDS,
    SHARDS,
    Emlio,
    environment,
    flip_bit,
    shard_path,
)
from daemon_process import Serve

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")
Image = pytest.importorskip("PIL.Image")

INT64 = [-1, 0, 2**40, -(2**63), 2**63 - 1]
BYTES = [b"a", b"", b"\xff\x00", bytes(range(256)), "ключ".encode()]
COLUMNS = 100  # of output that goes to no terminal


def feature(values: Sequence[int] | Sequence[float] | Sequence[bytes]) -> Any:
    if values and isinstance(values[0], int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(features: Mapping[str, Sequence[Any]]) -> bytes:
    of_each = {name: feature(values) for name, values in features.items()}
    record = tf.train.Example(features=tf.train.Features(feature=of_each))
    return bytes(record.SerializeToString())


def write_shard(path: Path, payloads: Iterable[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in payloads:
            writer.write(payload)
    return path


def inspect_json(emlio: Emlio, *args: object, code: int = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(emlio("inspect", *args, "--json", "-", code=code).stdout)
    return report


def by_name(report: dict[str, Any]) -> dict[str, Any]:
    return {feature["name"]: feature for feature in report["features"]}


def varied(number: int) -> dict[str, Sequence[Any]]:
    """Features of record `number` of ten: scalars, lists of fixed and other length, absent ones."""
    features: dict[str, Sequence[Any]] = {
        "id": [number],
        "ints": INT64,
        "weight": [number / 10],
        "strings": BYTES,
        "tokens": list(range(1, number + 1)) or [0],
        "ключ": [b"value"],
    }
    if number % 2:
        features["odd"] = [1.5, 2.5]
    return features


@pytest.fixture
def varied_shards(tmp_path: Path) -> Path:
    folder = tmp_path / "a b[1]"
    write_shard(folder / "s-0", (example(varied(number)) for number in range(6)))
    write_shard(folder / "s-1", (example(varied(number)) for number in range(6, 10)))
    return folder


def test_features_of_what_tensorflow_wrote(emlio: Emlio, varied_shards: Path) -> None:
    report = inspect_json(emlio, varied_shards)
    assert report["shards"] == 2
    assert report["records"] == report["records_read"] == 10
    assert report["content"]["tf.train.Example"] == 10
    assert [shard["records"] for shard in report["shard_list"]] == [6, 4]
    features = by_name(report)
    assert features["id"]["kinds"] == {"int64": 10}
    assert features["id"]["int64_range"] == {"min": 0, "max": 9}
    assert features["ints"]["first_values"] == INT64
    assert features["ints"]["int64_range"] == {"min": -(2**63), "max": 2**63 - 1}
    assert features["weight"]["float_range"] == {"min": 0.0, "max": 0.9}
    assert features["tokens"]["values_per_record"] == {"min": 1, "max": 9}
    assert features["odd"]["records"] == 5
    strings = features["strings"]
    assert strings["values_per_record"] == {"min": 5, "max": 5}
    assert [value["bytes"] for value in strings["first_values"]] == [1, 0, 2, 256, 8]
    assert strings["first_values"][4]["text"] == "ключ"
    assert base64.b64decode(strings["first_values"][3]["base64"]) == bytes(range(256))
    assert report["features_option"] == {
        "id": "int64",
        "ints": "int64[5]",
        "odd": "float[2]?",
        "strings": "bytes[5]",
        "tokens": "int64[]",
        "weight": "float",
        "ключ": "bytes",
    }


def test_people_get_a_table_that_fits_and_has_nothing_a_terminal_obeys(
    emlio: Emlio, varied_shards: Path
) -> None:
    lines = emlio("inspect", varied_shards).stdout.splitlines()
    assert "data set    2 shards, 10 records" in lines[0]
    assert "content     tf.train.Example (all records)" in lines
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["ints"][1:4] == ["int64", "5", "all"]
    assert rows["odd"][1:4] == ["float", "2", "5"]
    assert rows["ключ"][1:4] == ["bytes", "1", "all"]
    assert '"value"' in rows["ключ"]
    for line in lines:
        assert len(line) <= COLUMNS
        assert line.isprintable() or not line


def test_the_schema_reads_everything_that_was_inspected(emlio: Emlio, varied_shards: Path) -> None:
    text = emlio("inspect", varied_shards, "--schema").stdout
    features = json.loads(text)
    assert ast.literal_eval(text) == features
    with package.Loader(varied_shards, batch_size=10, features=features) as loader:
        batch = next(iter(loader))
    assert batch["id"].tolist() == list(range(10))
    assert batch["ints"].tolist() == [INT64] * 10
    assert batch["ints"].dtype == np.int64
    assert batch.present("odd").tolist() == [False, True] * 5
    for number in range(10):
        assert batch["tokens"][number].tolist() == list(varied(number)["tokens"])
        assert [bytes(value) for value in batch["strings"][number]] == BYTES


def test_the_schema_is_that_of_the_records_looked_at(emlio: Emlio, varied_shards: Path) -> None:
    first = json.loads(emlio("inspect", varied_shards, "--schema", "--records", 1).stdout)
    assert first["tokens"] == "int64"
    assert "odd" not in first
    every = json.loads(emlio("inspect", varied_shards, "--schema", "--records", 0).stdout)
    assert every["tokens"] == "int64[]"
    assert every["odd"] == "float[2]?"


def test_features_that_disagree_are_left_out_of_the_schema(emlio: Emlio, tmp_path: Path) -> None:
    path = write_shard(
        tmp_path / "x", [example({"a": [1], "b": [1]}), example({"a": [1], "b": [0.5]}), b"raw!"]
    )
    done = emlio("inspect", path, "--schema")
    assert json.loads(done.stdout) == {"a": "int64"}
    assert "b: 1 records have it as int64, 1 records have it as float" in done.stderr
    assert "2 tf.train.Example, 1 raw" in done.stderr


def encoded(image: Any, kind: str) -> bytes:
    data = io.BytesIO()
    image.save(data, kind)
    return data.getvalue()


def test_images_are_shown_by_format_and_size(emlio: Emlio, tmp_path: Path) -> None:
    images = {
        "jpeg": encoded(Image.new("RGB", (500, 375)), "JPEG"),
        "progressive": encoded(Image.new("L", (64, 48)), "JPEG"),
        "png": encoded(Image.new("RGBA", (32, 31)), "PNG"),
        "gif": encoded(Image.new("P", (320, 200)), "GIF"),
        "bmp": encoded(Image.new("RGB", (17, 9)), "BMP"),
        "webp": encoded(Image.new("RGB", (550, 368)), "WEBP"),
        "tiff": encoded(Image.new("RGB", (8, 9)), "TIFF"),
        "pnm": encoded(Image.new("RGB", (640, 480)), "PPM"),
        "none": b"BMW is no image",
    }
    lossless = io.BytesIO()
    Image.new("RGBA", (400, 301)).save(lossless, "WEBP", lossless=True)
    images["lossless"] = lossless.getvalue()
    path = write_shard(tmp_path / "x", [example({k: [v] for k, v in images.items()})])
    text = emlio("inspect", path).stdout
    expected = {
        "jpeg": "JPEG 500x375, 3 channels",
        "progressive": "JPEG 64x48, 1 channel",
        "png": "PNG 32x31, 4 channels",
        "gif": "GIF 320x200, 3 channels",
        "bmp": "BMP 17x9, 3 channels",
        "webp": "WebP 550x368, 3 channels",
        "lossless": "WebP 400x301, 4 channels",
        "tiff": "TIFF",
        "pnm": "PNM 640x480, 3 channels",
        "none": '"BMW is no image"',
    }
    for name, shown in expected.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"{name} "))
        assert line.endswith(f"  {shown}")
    features = by_name(inspect_json(emlio, path))
    for name, content in images.items():
        if name in ("none", "tiff"):
            continue
        with Image.open(io.BytesIO(content)) as image:
            assert features[name]["first_values"][0]["image"]["width"] == image.width
            assert features[name]["images"]["height"] == {"min": image.height, "max": image.height}


def test_other_payloads_are_said_to_be_so(emlio: Emlio, tmp_path: Path) -> None:
    sequence = tf.train.SequenceExample()
    sequence.context.feature["id"].int64_list.value.append(7)
    steps = sequence.feature_lists.feature_list["frames"]
    for _ in range(3):
        steps.feature.add().bytes_list.value.append(b"x")
    payload = sequence.SerializeToString()
    path = write_shard(tmp_path / "sequences", [payload] * 2)
    text = emlio("inspect", path).stdout
    assert "tf.train.SequenceExample (all records); to be read without features" in text
    assert "lists frames (3 steps of bytes); context 'id' (1 int64)" in text
    report = inspect_json(emlio, path, "--record", 1)["record"]
    assert report["feature_lists"] == [{"name": "frames", "steps": 3, "kind": "bytes"}]
    assert base64.b64decode(report["payload"]["base64"]) == payload

    path = write_shard(tmp_path / "raw", [os.urandom(1000), b'{"json": "line"}\n', b""])
    report = inspect_json(emlio, path)
    assert report["content"] == {
        "empty": 1,
        "tf.train.Example": 0,
        "tf.train.SequenceExample": 0,
        "raw": 2,
    }
    assert report["features"] == []
    assert report["sizes"]["min"] == 0
    done = emlio("inspect", path, "--schema", code=1)
    assert done.stdout == ""
    assert "without features" in done.stderr


def test_one_record_is_shown_in_full(emlio: Emlio, varied_shards: Path) -> None:
    of_data_set = inspect_json(emlio, varied_shards, "--record", 7)["record"]
    assert of_data_set["number"] == 7
    assert of_data_set["shard"] == "s-1"
    assert of_data_set["record"] == 1
    assert of_data_set["path"] == str(varied_shards / "s-1")
    with (varied_shards / "s-1").open("rb") as file:
        (first_bytes,) = struct.unpack("<Q", file.read(8))
    assert of_data_set["offset"] == 16 + first_bytes
    values = {feature["name"]: feature["values"] for feature in of_data_set["features"]}
    assert values["id"] == [7]
    assert values["ints"] == INT64
    assert values["weight"] == [0.7]
    assert base64.b64decode(values["strings"][3]["base64"]) == bytes(range(256))
    for name in ("s-1:1", f"{varied_shards}/s-1:1", "a b[1]/s-1:1"):
        assert inspect_json(emlio, varied_shards, "--record", name)["record"] == of_data_set
    text = emlio("inspect", varied_shards, "--record", "s-1:1").stdout
    assert "record    7 of 10: shard s-1, record 1" in text
    assert "tokens: int64, 7 values\n  1, 2, 3, 4, 5, 6, 7\n" in text


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("10", "the data set has 10"),
        ("s-1:4", "it has 4"),
        ("s-2:0", "no shard is called 's-2'"),
        ("s-1:", "names no record"),
        (":1", "names no record"),
        ("-1", "names no record"),
    ],
)
def test_a_record_that_is_not_there_is_a_usage_error(
    emlio: Emlio, varied_shards: Path, record: str, said: str
) -> None:
    assert said in emlio("inspect", varied_shards, f"--record={record}", code=2).stderr


def test_names_that_end_alike_have_to_be_given_whole(emlio: Emlio, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_shard(tmp_path / folder / "s", [b"x"])
    pattern = tmp_path / "*" / "s"
    assert "2 shards are called 's'" in emlio("inspect", pattern, "--record", "s:0", code=2).stderr
    assert inspect_json(emlio, pattern, "--record", "b/s:0")["record"]["number"] == 1


def test_a_daemon_is_asked_like_local_files(
    emlio: Emlio, serve: Serve, varied_shards: Path
) -> None:
    # The folder's name is no pattern, and serve takes it as it is.
    source = f"{serve({'train': varied_shards}).endpoint}/train"
    local, remote = inspect_json(emlio, varied_shards), inspect_json(emlio, source)
    for key in ("records", "digest", "content", "features", "features_option", "sizes"):
        assert remote[key] == local[key]
    assert remote["shard_list"] == [
        {key: value for key, value in shard.items() if key != "path"}
        for shard in local["shard_list"]
    ]
    for number in (9, 0):
        far, near = (
            inspect_json(emlio, where, "--record", number)["record"]
            for where in (source, varied_shards)
        )
        assert far["features"] == near["features"]
        assert "offset" not in far
    features = json.loads(emlio("inspect", source, varied_shards, "--schema").stdout)
    assert features == local["features_option"]


def test_nobody_listening_is_exit_code_3(emlio: Emlio) -> None:
    emlio("inspect", "tcp://127.0.0.1:1/train", "--timeout-s", 0.5, code=3)


def test_sizes_are_those_of_all_records(emlio: Emlio, tmp_path: Path) -> None:
    sizes = [0, 1, 2, 3, 1000, 1000, 70_000]
    path = write_shard(tmp_path / "x", (bytes(size) for size in sizes))
    report = inspect_json(emlio, path, "--records", 1)
    assert report["records_read"] == 1
    assert report["sizes"]["records"] == len(sizes)
    assert report["sizes"]["mean"] == pytest.approx(sum(sizes) / len(sizes))
    bins = {
        (part["from"], part["to"]): part["records"]
        for part in report["sizes"]["bins"]
        if part["records"]
    }
    assert bins == {(0, 1): 1, (1, 2): 1, (2, 4): 2, (512, 1024): 2, (65536, 131072): 1}
    assert "512-1024 B  2" in emlio("inspect", path).stdout


def test_damage_among_the_records_looked_at_is_named(emlio: Emlio, shards: Path) -> None:
    path = shard_path(shards, 0)
    flip_bit(path, 40 * FRAMED_BYTES + 12 + 500)
    assert inspect_json(emlio, shards, "--records", 40)["records_read"] == 40
    report = inspect_json(emlio, shards, "--records", 100, code=1)
    assert report["error"]["code"] == "CORRUPT"
    place = f"{path}, record 40 at offset {40 * FRAMED_BYTES}: payload checksum"
    assert place in report["error"]["message"]
    # What came before is there.
    assert report["records_read"] == 40
    assert report["records"] == RECORDS
    done = emlio("inspect", shards, code=1)
    assert place in done.stderr
    assert f"data set    {SHARDS} shards" in done.stdout
    assert place in emlio("inspect", shards, "--record", 40, code=1).stderr
    assert emlio("inspect", shards, "--schema", code=1).stdout == ""
    assert inspect_json(emlio, shards, "--record", 41)["record"]["bytes"] == RECORD_BYTES


def test_damaged_framing_is_named_with_its_place(emlio: Emlio, shards: Path) -> None:
    path = shard_path(shards, 1)
    os.truncate(path, 99 * FRAMED_BYTES + 500)
    report = inspect_json(emlio, shards, code=1)
    assert report["error"]["code"] == "TRUNCATED"
    assert f"{path}, record 99" in report["error"]["message"]
    first = str(shard_path(shards, 0))
    assert report["files"] == [{"what": "TFRecord", "files": 3, "first": first}]


def test_files_that_are_no_shards_are_told_apart(emlio: Emlio, shards: Path) -> None:
    (shards / "b.tfrecord").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 130\n"
    )
    (shards / "a.tfrecord").write_bytes(gzip.compress(shard_path(shards, 0).read_bytes()))
    (shards / "c.tfrecord").write_bytes(struct.pack("<Q", 2**63 + 5) * 3)
    done = emlio("inspect", shards, code=1)
    assert "gzip data" in done.stdout
    assert str(shards / "a.tfrecord") in done.stdout
    assert "a Git-LFS pointer" in done.stdout
    assert "3  TFRecord" in done.stdout
    assert "a.tfrecord" in done.stderr
    kinds = inspect_json(emlio, shards, code=1)["files"]
    assert {kind["what"]: kind["files"] for kind in kinds} == {
        "TFRecord": 3,
        "gzip data": 1,
        "a Git-LFS pointer": 1,
        "something else": 1,
    }


def test_empty_shards_are_a_warning_beside_full_ones_and_an_error_alone(
    emlio: Emlio, shards: Path, tmp_path: Path
) -> None:
    (shards / "empty").touch()
    (shards / "nothing").write_bytes(gzip.compress(b"", mtime=0))
    done = emlio("inspect", shards)
    assert "5 shards, 300 records" in done.stdout
    assert "2 of 5 shards have no record" in done.stderr
    assert "empty" in emlio("inspect", shards / "empty", code=1).stderr
    pattern = tmp_path / "nothing-*.tfrecord"
    assert str(pattern) in emlio("inspect", pattern, code=1).stderr


def test_a_terminal_of_80_columns_is_not_overrun(
    emlio_bin: str, varied_shards: Path, tmp_path: Path
) -> None:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [emlio_bin, "inspect", str(varied_shards)],
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env=environment(tmp_path),
    )
    os.close(follower)
    output = b""
    try:
        while chunk := os.read(leader, 65536):
            output += chunk
    except OSError:
        pass  # EIO: the other end is closed
    finally:
        os.close(leader)
    assert process.wait(DEADLINE_S) == 0
    lines = output.decode().splitlines()
    assert any(line.startswith("strings ") and line.endswith("...") for line in lines)
    assert max(map(len, lines)) <= 80
