# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Shards that are cut or have damaged lengths: an error, or what can be read of them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import emlio
import shards
from emlio import Loader
from processes import Daemon

RECORDS = 25  # of each of four shards
FRAME = len(shards.frame(bytes(40)))
SHARD_BYTES = RECORDS * FRAME
LAST = SHARD_BYTES - FRAME  # where the last record begins


def payload(number: int) -> bytes:
    return number.to_bytes(8, "little") + bytes(32)


def ids(loader: Loader) -> list[int]:
    return [
        int.from_bytes(bytes(record)[:8], "little") for batch in loader for record in batch.records
    ]


@pytest.fixture
def four(tmp_path: Path) -> Path:
    for shard in range(4):
        numbers = range(RECORDS * shard, RECORDS * (shard + 1))
        shards.write_shard(tmp_path / f"s-{shard}.tfrecord", map(payload, numbers))
    return tmp_path


def write_dali_index(shard: Path) -> None:
    lines = [f"{FRAME * record} {FRAME}\n" for record in range(RECORDS)]
    shard.with_name(shard.name + ".idx").write_text("".join(lines))


@pytest.mark.parametrize(
    ("cut", "has_index", "message"),
    [
        (SHARD_BYTES - 5, False, rf"record 24 at offset {LAST}: truncated inside the payload"),
        (LAST + 7, False, rf"record 24 at offset {LAST}: truncated inside the record header"),
        (LAST, True, r"s-2\.tfrecord\.idx counts 25 records"),
    ],
    ids=["payload", "header", "between records"],
)
@pytest.mark.parametrize("remote", [False, True])
def test_cut_shards_are_told_apart_and_read_up_to_the_cut(
    four: Path,
    serve: Callable[..., Daemon],
    capfd: pytest.CaptureFixture[str],
    cut: int,
    has_index: bool,
    message: str,
    remote: bool,
) -> None:
    shard = four / "s-2.tfrecord"
    if has_index:
        write_dali_index(shard)
    shard.write_bytes(shard.read_bytes()[:cut])
    with pytest.raises(emlio.TruncatedError, match=message) as raised:
        Loader(four, batch_size=10)
    assert "s-2.tfrecord" in str(raised.value)

    source: str | Path = four
    if remote:
        source = serve(four, "--on-bad-shard", "keep-readable").url
    with Loader(source, batch_size=10, on_bad_shard="keep-readable") as loader:
        assert ids(loader) == [i for i in range(4 * RECORDS) if i != 74]
        left_out = {} if has_index else {"s-2.tfrecord": cut - LAST}
        assert loader.stats()["unreadable_bytes_of_shard"] == left_out
        assert loader.stats()["bad_records"] == 0
    if not remote:
        assert re.search(message, capfd.readouterr().err)


@pytest.mark.parametrize("remote", [False, True])
def test_a_damaged_length_ends_its_shard_where_nobody_knows_the_next_record(
    four: Path, serve: Callable[..., Daemon], remote: bool
) -> None:
    damage(four / "s-1.tfrecord", 10)
    with pytest.raises(emlio.CorruptError, match=r"s-1\.tfrecord, record 10 .*length checksum"):
        Loader(four, batch_size=10)
    source: str | Path = four
    if remote:
        source = serve(four, "--on-bad-shard", "keep-readable").url
    with Loader(source, batch_size=10, shuffle="full", on_bad_shard="keep-readable") as loader:
        assert sorted(ids(loader)) == [i for i in range(100) if not 35 <= i < 50]
        assert len(loader) == 9
        assert loader.stats()["unreadable_bytes_of_shard"] == {"s-1.tfrecord": 15 * FRAME}


@pytest.mark.parametrize("remote", [False, True])
def test_one_damaged_length_costs_one_record_where_an_index_knows_the_others(
    four: Path, serve: Callable[..., Daemon], remote: bool
) -> None:
    write_dali_index(four / "s-1.tfrecord")
    damage(four / "s-1.tfrecord", 10)
    source: str | Path = four
    if remote:
        source = serve(four, "--on-bad-shard", "keep-readable").url
    options: dict[str, Any] = {"batch_size": 10, "on_bad_shard": "keep-readable"}
    with Loader(source, max_bad_records=1, **options) as loader:
        assert ids(loader) == [i for i in range(100) if i != 35]
        assert len(loader) == 10
        stats = loader.stats()
        assert stats["bad_records_of_shard"] == {"s-1.tfrecord": 1}
        assert stats["unreadable_bytes_of_shard"] == {}
    with (
        Loader(source, **options) as strict,
        pytest.raises(emlio.CorruptError, match=r"s-1\.tfrecord, record 10, .*length checksum"),
    ):
        ids(strict)


def test_two_hosts_agree_about_a_shard_that_one_of_them_has_damaged(
    four: Path, tmp_path_factory: pytest.TempPathFactory, serve: Callable[..., Daemon]
) -> None:
    other = tmp_path_factory.mktemp("other")
    copy = other / "s-1.tfrecord"
    copy.write_bytes((four / "s-1.tfrecord").read_bytes())
    write_dali_index(copy)
    damage(copy, 10)
    readable = serve(other, "--on-bad-shard", "keep-readable")
    with Loader([four, readable.url], batch_size=10) as loader:
        assert ids(loader) == list(range(100))

    cut = tmp_path_factory.mktemp("cut") / "s-1.tfrecord"
    cut.write_bytes((four / "s-1.tfrecord").read_bytes()[: LAST + 3])
    shorter = serve(cut.parent, "--on-bad-shard", "keep-readable")
    with pytest.raises(emlio.PlanMismatchError, match=r"s-1\.tfrecord.*24 records"):
        Loader([four, shorter.url], batch_size=10)


def damage(shard: Path, record: int) -> None:
    data = bytearray(shard.read_bytes())
    data[record * FRAME] ^= 1
    shard.write_bytes(data)


def test_the_policy_is_checked(four: Path) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match="'skip'"):
        Loader(four, batch_size=10, on_bad_shard="skip")  # type: ignore[arg-type]
