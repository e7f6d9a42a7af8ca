# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A client that knows nothing but PROTOCOL.md reads from the real daemon."""

import importlib.util
import itertools
import os
import pickle
import random
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import msgpack
import pytest
import zmq

from daemon_process import Daemon, Serve
from minimal_client import ERROR, HELLO, JOIN, OPEN, PING, Client, RemoteError, crc32c, read_epoch

# base/status.h, PROTOCOL.md section 9.
INVALID_ARGUMENT, NOT_FOUND, CORRUPT, UNSUPPORTED, PLAN_MISMATCH, PROTOCOL = 1, 2, 4, 6, 8, 9


def load_plan_twin() -> ModuleType:
    """PLAN.md in Python, which the tests of the package have."""
    path = Path(__file__).resolve().parents[2] / "python/tests/plan_twin.py"
    spec = importlib.util.spec_from_file_location("plan_twin", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def write_shard(path: Path, payloads: list[bytes]) -> None:
    with path.open("wb") as file:
        for payload in payloads:
            length = struct.pack("<Q", len(payload))
            file.write(length + masked(length) + payload + masked(payload))


def expected(
    shards: list[list[bytes]],
    batch: int,
    shuffle: tuple[int, ...] = (0,),
    tail: int = 1,
    seed: int = 0,
    epoch: int = 0,
) -> dict[tuple[int, int], bytes]:
    twin = load_plan_twin()
    counts = [len(shard) for shard in shards]
    spec = {"shard_records": counts, "global_batch": batch, "tail": tail, "seed": seed}
    spec |= dict(zip(("shuffle", "block_records", "window_blocks"), shuffle, strict=False))
    steps = -(-sum(counts) // batch)
    return {
        (step, slot): shards[shard][record]
        for step in range(steps)
        for slot, (shard, record) in enumerate(twin.batch(spec, epoch, step, 0, 1))
    }


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[list[bytes]]]:
    """Glob and payloads of three shards; some records are empty, one is large."""
    directory = tmp_path_factory.mktemp("shards")
    source = random.Random(7)
    payloads = [[source.randbytes(source.randrange(200)) for _ in range(n)] for n in (40, 1, 62)]
    payloads[0][3] = payloads[2][60] = b""
    payloads[2][17] = source.randbytes(50_000)
    for i, shard in enumerate(payloads):
        write_shard(directory / f"part-{i}.tfrecord", shard)
    return str(directory / "*.tfrecord"), payloads


@pytest.fixture
def daemon(serve: Serve, shards: tuple[str, list[list[bytes]]]) -> Daemon:
    return serve({"train": shards[0]})


@pytest.mark.parametrize("streams", [1, 4])
def test_reads_an_epoch_in_stored_order(
    daemon: Daemon, shards: tuple[str, list[list[bytes]]], streams: int
) -> None:
    filled = read_epoch(daemon.endpoint, "train", 8, streams)
    assert filled == expected(shards[1], 8)


def test_reads_the_shuffled_order_that_the_plan_says(
    daemon: Daemon, shards: tuple[str, list[list[bytes]]]
) -> None:
    for shuffle in [(1,), (2, 7, 3)]:
        filled = read_epoch(daemon.endpoint, "train", 10, shuffle=shuffle, seed=42, epoch=3)
        assert filled == expected(shards[1], 10, shuffle=shuffle, seed=42, epoch=3)
        assert sorted(filled.values()) == sorted(itertools.chain(*shards[1]))


@pytest.mark.parametrize("shuffle", [(0,), (1, 0, 0), (2, 7, 3)])
def test_a_padded_epoch_begins_anew_in_its_last_step(
    daemon: Daemon, shards: tuple[str, list[list[bytes]]], shuffle: tuple[int, ...]
) -> None:
    filled = read_epoch(daemon.endpoint, "train", 10, shuffle=shuffle, tail=2)
    assert filled == expected(shards[1], 10, shuffle=shuffle, tail=2)
    assert len(filled) == 110


def test_small_credit_and_small_chunks_change_nothing(
    daemon: Daemon, shards: tuple[str, list[list[bytes]]]
) -> None:
    """Batches and one record are larger than the credit; that record comes in pieces."""
    filled = read_epoch(daemon.endpoint, "train", 16, credit=100, shuffle=(1,), max_chunk=4096)
    assert filled == expected(shards[1], 16, shuffle=(1,))


@pytest.mark.parametrize("credit", [100, 8 << 20])
def test_records_that_rot_while_they_are_served_are_skipped(
    serve: Serve, tmp_path: Path, credit: int
) -> None:
    """The skipped take part in credit, else a small one would be used up by them."""
    payloads = [struct.pack("<Q", i) + bytes(32) for i in range(100)]
    shard = tmp_path / "s-0.tfrecord"
    write_shard(shard, payloads)
    daemon = serve({"train": shard})
    times = shard.stat()
    bad = {3, *range(40, 70), 99}
    with shard.open("r+b") as file:
        for record in bad:
            file.seek(record * 56)
            file.write(b"rotten")
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))

    skipped: dict[tuple[int, int], dict[str, Any]] = {}
    filled = read_epoch(daemon.endpoint, "train", 8, credit=credit, skipped=skipped)
    whole = expected([payloads], 8)
    assert filled == {key: payload for key, payload in whole.items() if payload[0] not in bad}
    assert filled.keys() | skipped.keys() == whole.keys()
    for (step, slot), header in skipped.items():
        record = 8 * step + slot
        assert (header["shard"], header["record"]) == (b"s-0.tfrecord", record)
        assert (header["offset"], header["code"]) == (56 * record, CORRUPT)
        assert (header.get("begin", 0), header["end"]) == (56 * record, 56 * (record + 1))
    with pytest.raises(RemoteError, match="length checksum"):
        read_epoch(daemon.endpoint, "train", 8)


def test_begins_at_any_step(daemon: Daemon, shards: tuple[str, list[list[bytes]]]) -> None:
    filled = read_epoch(daemon.endpoint, "train", 8, step=11)
    whole = expected(shards[1], 8)
    assert filled == {key: payload for key, payload in whole.items() if key[0] >= 11}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"dataset": "absent"}, NOT_FOUND),
        ({"batch": 0}, INVALID_ARGUMENT),
        ({"step": 13}, INVALID_ARGUMENT),
        ({"rank": 1}, INVALID_ARGUMENT),
        ({"world": 9, "rank": 8}, INVALID_ARGUMENT),  # the last step has 7 records
        ({"shuffle": (2,)}, INVALID_ARGUMENT),  # without the sizes of blocks and windows
        ({"shuffle": (1, 7, 3)}, INVALID_ARGUMENT),
        ({"shuffle": (3,)}, UNSUPPORTED),
        ({"shuffle": (2, 1 << 32, 1)}, PROTOCOL),
        ({"tail": 3}, UNSUPPORTED),
        ({"plan": b"x" * 16}, PLAN_MISMATCH),
        ({"job": "j"}, PLAN_MISMATCH),  # no plan hash, although ranks are to be compared
        ({"seed": "zero"}, PROTOCOL),
        ({"max_chunk": 1 << 30}, PROTOCOL),
    ],
)
def test_refuses_what_cannot_work(daemon: Daemon, fields: dict[str, Any], code: int) -> None:
    arguments: dict[str, Any] = {"dataset": "train", "batch": 8} | fields
    with pytest.raises(RemoteError) as error:
        read_epoch(daemon.endpoint, **arguments)
    assert error.value.args[0] == code
    assert error.value.args[1]


class PickleBomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_bad_headers_get_typed_errors_and_hurt_nobody(
    daemon: Daemon, shards: tuple[str, list[list[bytes]]], tmp_path: Path
) -> None:
    bomb = tmp_path / "went-off"
    attacks = {
        pickle.dumps(PickleBomb(bomb)): PROTOCOL,
        b"": PROTOCOL,
        b"\xdd\xff\x00\x00\x00": PROTOCOL,
        b"\x91" * 100_000: PROTOCOL,
        b"\xc6\xff\xff\xff\xff0123456789": PROTOCOL,
        msgpack.packb({"t": HELLO, "min": 2, "max": 3}): UNSUPPORTED,
        msgpack.packb({"t": 99}): UNSUPPORTED,
        msgpack.packb({"t": PING, "nonce": 1}): PROTOCOL,  # before Hello
        msgpack.packb({"t": OPEN, "id": 1}): PROTOCOL,
        msgpack.packb({"t": JOIN, "id": 1, "stream": 0, "gen": 0, "seq": 0}): NOT_FOUND,
    }
    with zmq.Context() as context:
        for attack, code in attacks.items():
            with context.socket(zmq.DEALER) as socket:
                socket.setsockopt(zmq.LINGER, 0)
                socket.setsockopt(zmq.RCVTIMEO, 10_000)
                socket.connect(daemon.endpoint)
                socket.send(attack)
                answer = msgpack.unpackb(socket.recv())
                assert (answer["t"], answer["code"]) == (ERROR, code), attack[:20]
    assert not bomb.exists()
    assert daemon.process.poll() is None
    assert read_epoch(daemon.endpoint, "train", 8) == expected(shards[1], 8)


def test_ping_is_answered_with_its_nonce(daemon: Daemon) -> None:
    client = Client(daemon.endpoint, streams=0)
    try:
        client.ask(2, HELLO, min=1, max=7)
        assert client.ask(16, PING, nonce=2**64 - 1)["nonce"] == 2**64 - 1
    finally:
        client.close()


def test_stops_when_asked_to(daemon: Daemon) -> None:
    assert daemon.stop() == 0
