# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Index files that are missing, stale, swapped, foreign or damaged, and what mends them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import DEADLINE_S, RECORDS, SHARDS, Emlio, pull_report, shard_path, wait_until
from daemon_process import Serve

HEADER_BYTES = 96
MANY_SHARDS = 3000


def index_report(emlio: Emlio, *args: object) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(emlio("index", *args, "--json", "-").stdout)
    return report


@pytest.fixture
def indexes(emlio: Emlio, shards: Path, tmp_path: Path) -> list[Path]:
    """The index files of the shards, in a folder of their own."""
    emlio("index", shards, "--index-dir", tmp_path / "indexes")
    return sorted((tmp_path / "indexes").iterdir())


def change(path: Path, offset: int, by: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([(byte + by) % 256]))


def damage_table(path: Path) -> None:
    change(path, HEADER_BYTES + 8 * 50, 3)  # an offset: record 49 looks longer, 50 shorter
    change(path, HEADER_BYTES + 8 * 70 + 7, 1)  # an offset that cannot be


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-8]),
    "foreign": lambda path: path.write_text("0 1016\n1016 1016\n" * 100),
    "header": lambda path: change(path, 20, 1),
    "table": damage_table,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_index_builds_again_what_is_not_good(
    emlio: Emlio, shards: Path, indexes: list[Path], damage: str
) -> None:
    place = ("--index-dir", indexes[0].parent)
    good = [path.read_bytes() for path in indexes]
    assert index_report(emlio, shards, *place)["built"] == 0
    DAMAGES[damage](indexes[1])
    done = emlio("index", shards, *place, "--json", "-")
    assert json.loads(done.stdout)["built"] == 1
    if damage != "missing":
        assert str(indexes[1]) in done.stderr
    assert [path.read_bytes() for path in indexes] == good


def test_swapped_indexes_and_those_of_another_state_are_built_again(
    emlio: Emlio, shards: Path, indexes: list[Path]
) -> None:
    place = ("--index-dir", indexes[0].parent)
    good = [path.read_bytes() for path in indexes]
    indexes[0].write_bytes(good[1])
    indexes[1].write_bytes(good[0])
    assert index_report(emlio, shards, *place)["built"] == 2
    assert [path.read_bytes() for path in indexes] == good
    shutil.copyfile(shard_path(shards, 0), shards / "copy")  # another inode
    (shards / "copy").replace(shard_path(shards, 0))
    assert index_report(emlio, shards, *place)["built"] == 1


def test_rebuild_builds_all(emlio: Emlio, shards: Path, indexes: list[Path]) -> None:
    place = ("--index-dir", indexes[0].parent)
    assert index_report(emlio, shards, *place, "--rebuild")["built"] == SHARDS


def test_indexes_are_put_where_they_are_asked_for(
    emlio: Emlio, shards: Path, tmp_path: Path
) -> None:
    assert index_report(emlio, shards)["built"] == SHARDS  # into the cache
    assert index_report(emlio, shards, "--beside")["built"] == SHARDS
    assert len(list(shards.glob("*.emlio-index"))) == SHARDS
    assert index_report(emlio, shards, "--beside")["built"] == 0
    assert index_report(emlio, shards, "--index-dir", tmp_path / "new")["built"] == SHARDS
    assert index_report(emlio, shards)["built"] == 0


def test_an_index_that_cannot_be_written_is_an_error_that_names_the_place(
    emlio: Emlio, shards: Path
) -> None:
    assert "/proc/nope" in emlio("index", shards, "--index-dir", "/proc/nope", code=1).stderr
    in_the_way = shards / (shard_path(shards, 1).name + ".emlio-index")
    in_the_way.mkdir()
    assert str(in_the_way) in emlio("index", shards, "--beside", code=1).stderr
    # Who only reads goes on without.
    done = emlio("pull", shards, "--batch-size", 9, "--check-once", "--index-dir", "/proc/nope")
    assert "/proc/nope" in done.stderr


def test_a_table_damaged_by_then_costs_no_record(
    emlio: Emlio, shards: Path, indexes: list[Path]
) -> None:
    good = [path.read_bytes() for path in indexes]
    for path in indexes:
        damage_table(path)
    done = emlio(
        *("pull", shards, "--index-dir", indexes[0].parent, "--batch-size", 7),
        *("--shuffle", "full", "--check-once", "--json", "-"),
    )
    report = json.loads(done.stdout)
    assert report["records"] == RECORDS
    assert report["bad_records"] == 0
    assert any(str(path) in done.stderr for path in indexes)
    assert [path.read_bytes() for path in indexes] == good


def test_a_daemon_mends_its_indexes(
    emlio: Emlio, serve: Serve, shards: Path, indexes: list[Path]
) -> None:
    good = [path.read_bytes() for path in indexes]
    for path in indexes:
        damage_table(path)
    daemon = serve({"train": shards}, extra_args=["--index-dir", str(indexes[0].parent)])
    for _ in range(2):
        report = pull_report(emlio, f"{daemon.endpoint}/train", "--batch-size", 7, "--check-once")
        assert report["records"] == RECORDS
    assert [path.read_bytes() for path in indexes] == good
    assert sum(daemon.log.read_text().count(str(path)) for path in indexes) == 1  # for example


# Takes the place of an import of TensorFlow, which takes long and which the program can do without.
TFRECORD2IDX = """
import runpy, sys
sys.modules["tensorflow"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0])
"""


def test_indexes_for_dali_are_those_that_dali_makes(
    emlio: Emlio, shards: Path, tmp_path: Path
) -> None:
    emlio(
        *("convert", "imagefolder", make_image(tmp_path / "images"), shards / "more"),
        *("--shards", 1),
    )
    patterns = (shards, shards / "*" / "*.tfrecord")
    report = index_report(emlio, *patterns, "--dali-idx")
    assert report["dali_written"] == SHARDS + 1
    found = sorted(shards.rglob("*.idx"))
    assert len(found) == SHARDS + 1
    program = tfrecord2idx()
    for path in found:
        made = tmp_path / "made.idx"
        shard = path.with_name(path.name.removesuffix(".idx"))
        if program is not None:
            subprocess.run(
                [sys.executable, "-c", TFRECORD2IDX, program, shard, made],
                check=True,
                timeout=DEADLINE_S,
            )
        else:
            made.write_text(as_dali_does(shard))
        assert made.read_text() == as_dali_does(shard)
        assert path.read_bytes() == made.read_bytes()

    assert index_report(emlio, *patterns, "--dali-idx")["dali_written"] == 0
    found[1].write_bytes(found[0].read_bytes()[:-1])
    done = emlio("index", *patterns, "--dali-idx", "--json", "-")
    assert json.loads(done.stdout)["dali_written"] == 1
    assert str(found[1]) in done.stderr
    elsewhere = tmp_path / "idx"
    assert index_report(emlio, *patterns, "--dali-idx-dir", elsewhere)["dali_written"] == SHARDS + 1
    assert len(list(elsewhere.rglob("*.idx"))) == SHARDS + 1
    assert "/proc/nope" in emlio("index", shards, "--dali-idx-dir", "/proc/nope", code=1).stderr


def tfrecord2idx() -> Path | None:
    """DALI's own program, where DALI is installed."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or []) if spec else []
    programs = [Path(place).parents[3] / "bin" / "tfrecord2idx" for place in places]
    return next((program for program in programs if program.exists()), None)


def make_image(folder: Path) -> Path:
    (folder / "cat").mkdir(parents=True)
    (folder / "cat" / "1.jpg").write_bytes(bytes.fromhex("ffd8ffe000104a4649460001") + bytes(5000))
    return folder


def as_dali_does(shard: Path) -> str:
    data, lines, offset = shard.read_bytes(), [], 0
    while offset < len(data):
        size = int.from_bytes(data[offset : offset + 8], "little") + 16
        lines.append(f"{offset} {size}\n")
        offset += size
    return "".join(lines)


def test_indexing_can_be_interrupted_and_gone_on_with(
    emlio: Emlio, emlio_bin: str, tmp_path: Path
) -> None:
    shards, indexes = tmp_path / "many", tmp_path / "indexes"
    emlio(
        *("convert", "synthetic", shards, "--records", MANY_SHARDS),
        *("--record-bytes", 10, "--shards", MANY_SHARDS),
    )
    command = [emlio_bin, "index", str(shards), "--index-dir", str(indexes), "--jobs", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: indexes.exists() and any(indexes.iterdir()), "an index is built")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "interrupted" in err
    built = [path.name for path in indexes.iterdir()]
    assert not [name for name in built if ".tmp." in name]
    assert index_report(emlio, shards, "--index-dir", indexes)["built"] == MANY_SHARDS - len(built)
