# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The readers that benchmarks/local compares read the same, and what they read is checked."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.local.__main__ import FULL, PAIRS, QUICK, contenders, goals, metric
from benchmarks.local.readers import Batch
from benchmarks.local.serve import checksums, consume
from benchmarks.processes import JsonServer

REPOSITORY = Path(__file__).parents[2]
EMLIO = str(Path(sys.executable).with_name("emlio"))
RECORDS, RECORD_BYTES, BATCH = 96, 3_000, 8
IMPORTS = {
    "dali_tfrecord": "nvidia.dali",
    "emlio_dali": "nvidia.dali",
    "emlio_torch": "torch",
    "tfdata": "tensorflow",
    "torch": "tfrecord",
}


def batch(*records: tuple[int, bytes]) -> Batch:
    return Batch(
        np.array([number for number, _ in records], np.int64),
        [np.frombuffer(value, np.uint8) for _, value in records],
    )


def test_records_are_the_same_in_any_order_and_in_any_batches() -> None:
    one = checksums([batch((0, b"a"), (1, b"bc")), batch((2, b"d"))])
    other = checksums([batch((2, b"d")), batch((1, b"bc"), (0, b"a"))])
    assert one == other
    assert (one["records"], one["distinct"]) == (3, 3)


@pytest.mark.parametrize(
    "records",
    [
        [(0, b"a")],
        [(0, b"a"), (1, b"bc"), (1, b"bc")],
        [(0, b"a"), (0, b"a")],
        [(0, b"a"), (1, b"bd")],
        [(0, b"bc"), (1, b"a")],
    ],
)
def test_a_missing_repeated_or_damaged_record_is_noticed(records: list[tuple[int, bytes]]) -> None:
    assert checksums([batch(*records)]) != checksums([batch((0, b"a"), (1, b"bc"))])


def test_every_byte_is_looked_at() -> None:
    value = bytearray(range(200))
    whole = consume([batch((7, bytes(value)))])
    assert whole == {"records": 1, "payload_bytes": 200, "folds": 0, "numbers": 7}
    for place in range(len(value)):
        value[place] ^= 1
        assert consume([batch((7, bytes(value)))]) != whole
        value[place] ^= 1


def test_records_of_100_kb_need_no_suffix() -> None:
    large, small = FULL.data_sets
    assert metric("local_over", "torch", large) == "local_over_torch"
    assert metric("local_over", "torch", small) == "local_over_torch_10kb"
    assert {"local_over_dali_tfrecord", "local_cpu_over_tfdata_10kb"} <= set(goals())
    assert set(PAIRS) | set(PAIRS.values()) == set(contenders(2))


def test_data_sets_are_whole_batches_for_every_number_of_readers() -> None:
    for data_set in FULL.data_sets + QUICK.data_sets:
        for contender in contenders(2).values():
            for options in contender.choices:
                assert data_set.records % (data_set.batch_size * options.get("readers", 1)) == 0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    sizes = ["--records", str(RECORDS), "--record-bytes", str(RECORD_BYTES), "--shards", "4"]
    for command in (
        [EMLIO, "convert", "synthetic", str(folder), "--example", *sizes],
        [EMLIO, "index", "--dali-idx", "--beside", str(folder)],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder


@pytest.mark.parametrize("reader", sorted({found.reader for found in contenders(2).values()}))
def test_every_reader_hands_out_every_record_once_in_each_pass(
    reader: str, data: Path, tmp_path: Path
) -> None:
    needed = IMPORTS.get(reader, "emlio")
    if importlib.util.find_spec(needed.partition(".")[0]) is None:
        pytest.skip(f"{needed} is not installed")
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-m", "benchmarks.local.serve"]
    digests = set()
    with JsonServer(command, tmp_path / "serve.log", env) as server:
        for name, contender in contenders(2).items():
            for options in contender.choices if contender.reader == reader else ():
                settings: dict[str, Any] = {"folder": str(data), "batch_size": BATCH, **options}
                server.ask({"open": name, "reader": reader, "options": settings})
                checked = server.ask({"read": name, "check": True})
                assert (checked["records"], checked["distinct"]) == (RECORDS, RECORDS)
                digests.add((name.endswith("_raw"), checked["digest"]))
                found = server.ask({"read": name, "passes": 2, "check": False})
                assert found["records"] == RECORDS
                if not name.endswith("_raw"):
                    assert found["payload_bytes"] == RECORDS * RECORD_BYTES
                    assert found["numbers"] == sum(range(RECORDS))
                server.ask({"close": name})
    assert len(digests) == len({raw for raw, _ in digests})  # whatever the options
