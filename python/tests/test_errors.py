# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Errors reach user code with their class, their place and their reason."""

import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import emlio
import shards
from emlio import Loader
from processes import Daemon

CLASSES = {
    "INVALID_ARGUMENT": (emlio.InvalidArgumentError, ValueError),
    "NOT_FOUND": (emlio.NotFoundError, FileNotFoundError),
    "PERMISSION_DENIED": (emlio.PermissionDeniedError, PermissionError),
    "CORRUPT": (emlio.CorruptError, emlio.Error),
    "TRUNCATED": (emlio.TruncatedError, emlio.Error),
    "UNSUPPORTED": (emlio.UnsupportedError, emlio.Error),
    "LIMIT_EXCEEDED": (emlio.LimitExceededError, emlio.Error),
    "PLAN_MISMATCH": (emlio.PlanMismatchError, emlio.Error),
    "PROTOCOL": (emlio.ProtocolError, emlio.Error),
    "UNAVAILABLE": (emlio.UnavailableError, ConnectionError),
    "TIMEOUT": (emlio.TimeoutError, TimeoutError),
    "CANCELLED": (emlio.CancelledError, emlio.Error),
    "SHARD_CHANGED": (emlio.ShardChangedError, emlio.Error),
    "IO": (emlio.IoError, OSError),
    "INTERNAL": (emlio.InternalError, emlio.Error),
}


def test_the_codes_are_those_of_the_cpp_list() -> None:
    header = Path(__file__).parents[2] / "src/emlio/base/status.cc"
    names = set(re.findall(r'return "([A-Z_]+)";', header.read_text()))
    assert names - {"OK"} == set(CLASSES)


@pytest.mark.parametrize("code", CLASSES)
def test_each_code_has_one_class(code: str) -> None:
    made, builtin = CLASSES[code]
    assert issubclass(made, emlio.Error)
    assert issubclass(made, builtin)
    assert made.code == code
    assert made.__module__ == "emlio"
    error = made("shard x: it broke")
    assert str(error) == "shard x: it broke"
    # Exceptions travel from worker processes.
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (made, str(error))


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def record_offset(number: int) -> int:
    return sum(len(shards.frame(shards.labelled(before))) for before in range(number))


@pytest.fixture
def damaged(tmp_path: Path, hundred: Path) -> Path:
    """A copy of `hundred` in which a bit of the payload of record 15 of s-0 is wrong."""
    for shard in hundred.iterdir():
        (tmp_path / shard.name).write_bytes(shard.read_bytes())
    flip(tmp_path / "s-0.tfrecord", record_offset(15) + 12 + 9)
    return tmp_path


def test_bad_records_within_the_budget_are_left_out(damaged: Path) -> None:
    features = shards.FEATURES
    with Loader(damaged, batch_size=8, features=features, max_bad_records=1) as loader:
        batches = list(loader)
        assert len(batches) == len(loader) == 13
        ids = [int(i) for batch in batches for i in batch["id"]]
        assert ids == [i for i in range(100) if i != 15]
        assert [int(i) for batch in batches for i in batch.indices] == ids
        [(index, fault)] = [bad for batch in batches for bad in batch.bad_records]
        assert index == 15
        assert re.search(r"s-0\.tfrecord.*record 15.*payload checksum", fault)
        assert len(batches[1]) == 7
        stats = loader.stats()
        assert stats["bad_records"] == 1
        assert stats["bad_records_of_shard"] == {"s-0.tfrecord": 1}
        state = loader.state_dict()
        assert state["bad_records"] == 1

    # The budget goes on with the state.
    with Loader(damaged, batch_size=8, features=features, max_bad_records=1) as resumed:
        resumed.load_state_dict(state)
        with pytest.raises(emlio.CorruptError, match="more than 1 bad record"):
            list(resumed)


@pytest.mark.parametrize("remote", [False, True])
def test_a_corrupt_payload_names_its_place(
    damaged: Path, serve: Callable[[Path], Daemon], remote: bool
) -> None:
    source = serve(damaged).url if remote else str(damaged)
    handed_out = []
    with Loader(source, batch_size=4, features=shards.FEATURES, timeout_s=30) as loader:
        batches = iter(loader)
        with pytest.raises(emlio.CorruptError) as raised:
            handed_out += [int(number) for batch in batches for number in batch["id"]]
        message = str(raised.value)
        assert "s-0.tfrecord" in message
        assert re.search(r"record 15\b", message)
        assert re.search(rf"offset {record_offset(15)}\b", message)
        assert "payload checksum" in message
        with pytest.raises(emlio.CorruptError):
            next(batches)
        # It is the data that are bad, not the loader.
        loader.load_state_dict({**loader.state_dict(), "epoch": 0, "step": 4})
        rest = [int(number) for batch in loader for number in batch["id"]]
    assert rest == list(range(16, 100))
    assert 15 not in handed_out


ODD_NAME = b"caf\xe9 \xd0\xba.tfrecord"  # ISO 8859-1 and UTF-8: the file system does not mind


@pytest.mark.parametrize("remote", [False, True])
def test_names_that_are_not_utf8_come_through(
    damaged: Path, serve: Callable[[Path], Daemon], remote: bool
) -> None:
    (damaged / "s-0.tfrecord").rename(damaged / os.fsdecode(ODD_NAME))
    source = serve(damaged).url if remote else damaged
    with Loader(source, batch_size=4, timeout_s=30) as loader:
        assert os.fsencode(loader.locate(15)[0]) == ODD_NAME
        with pytest.raises(emlio.CorruptError) as raised:
            list(loader)
        if not remote:
            assert ODD_NAME in os.fsencode(str(raised.value))
        assert "record 15" in str(raised.value)
        assert pickle.loads(pickle.dumps(raised.value)).args == raised.value.args
        assert loader.stats()["records"] == 12
    with pytest.raises(emlio.NotFoundError) as missing:
        Loader(damaged / os.fsdecode(b"\xff*"), batch_size=1)
    assert os.fsencode(damaged) + b"/\xff*" in os.fsencode(str(missing.value))


def test_a_corrupt_length_is_found_at_the_start(damaged: Path) -> None:
    flip(damaged / "s-1.tfrecord", record_offset(0) + 2)
    with pytest.raises(emlio.CorruptError, match=r"s-1\.tfrecord.*length"):
        Loader(damaged, batch_size=4)


def test_a_truncated_shard_is_its_own_error(damaged: Path) -> None:
    path = damaged / "s-2.tfrecord"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(emlio.TruncatedError, match=r"s-2\.tfrecord"):
        Loader(damaged, batch_size=4)


def test_compressed_shards_are_refused(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "x.tfrecord"
    path.write_bytes(gzip.compress(b"".join(shards.frame(bytes(100)) for _ in range(100))))
    with pytest.raises(
        emlio.UnsupportedError, match=r"x\.tfrecord.*gzip.*emlio convert recompress"
    ):
        Loader(path, batch_size=4)


def test_a_git_lfs_pointer_is_no_shard(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\n")
    with pytest.raises(emlio.Error, match=r"x\.tfrecord") as raised:
        Loader(path, batch_size=4)
    assert raised.value.code in ("CORRUPT", "UNSUPPORTED", "INVALID_ARGUMENT")


def test_a_record_over_the_limit_names_both_sizes(tmp_path: Path) -> None:
    path = shards.write_shard(tmp_path / "x.tfrecord", [bytes(3 << 20)])
    with pytest.raises(emlio.LimitExceededError, match=str(3 << 20)):
        Loader(path, batch_size=1, max_record_mb=2)


def test_an_unknown_data_set_is_named(serve: Callable[[Path], Daemon], hundred: Path) -> None:
    url = serve(hundred).url.removesuffix("/data") + "/other"
    with pytest.raises(emlio.NotFoundError, match="other"):
        Loader(url, batch_size=4, timeout_s=10)


def test_ranks_of_a_job_that_disagree_are_refused(
    serve: Callable[[Path], Daemon], hundred: Path
) -> None:
    url = serve(hundred).url
    ranks = {"world_size": 2, "job": "job-1", "batch_size": 4, "tail": "drop", "timeout_s": 10}
    with Loader(url, rank=0, seed=0, **ranks) as first:  # type: ignore[arg-type]
        next(iter(first))
        with pytest.raises(emlio.PlanMismatchError):
            next(iter(Loader(url, rank=1, seed=1, **ranks)))  # type: ignore[arg-type]
