# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Conversions that are killed and begun again, and the proof that shards equal their source."""

from __future__ import annotations

import gzip
import json
import re
import resource
import signal
import subprocess
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import DEADLINE_S, Emlio, environment, flip_bit, shard_path, wait_until

SETTINGS = ["--records", 6400, "--record-bytes", "40KB", "--shards", 32, "--jobs", 1]


def convert_report(emlio: Emlio, *args: object, code: int | None = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(emlio("convert", *args, "--json", "-", code=code).stdout)
    return report


def shards_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tfrecord"))


def start(emlio_bin: str, tmp_path: Path, *args: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [emlio_bin, "convert", *map(str, args)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(tmp_path),
    )


def break_off(
    emlio_bin: str,
    tmp_path: Path,
    folder: Path,
    number: signal.Signals,
    more_shards: int,
    command: Sequence[object] = (),
) -> int:
    """Ends a conversion when so many shards more are finished; gives how many are."""
    command = command or ("synthetic", folder, *SETTINGS)
    unfinished = folder / ".emlio-convert"
    before = len(shards_in(unfinished))
    process = start(emlio_bin, tmp_path, *command)

    def is_far_enough() -> bool:
        """Lets it run for a moment only, or on a busy machine it would be done before we look."""
        process.send_signal(signal.SIGCONT)
        time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        return len(shards_in(unfinished)) >= before + more_shards

    wait_until(is_far_enough, "shards are finished")
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    assert process.wait(DEADLINE_S) != 0
    assert shards_in(folder) == []
    return len(shards_in(unfinished))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_same_command_goes_on_after_a_kill(
    emlio: Emlio, emlio_bin: str, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "shards"
    for _ in range(3):
        finished = break_off(emlio_bin, tmp_path, folder, number, more_shards=3)
    assert finished >= 9
    report = convert_report(emlio, "synthetic", folder, *SETTINGS)
    # The last one may have been finished and not be noted.
    assert report["kept_shards"] in (finished, finished - 1)
    assert report["shards"] == 32
    assert report["records"] == 6400
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []

    convert_report(emlio, "synthetic", tmp_path / "whole", *SETTINGS)
    for path in shards_in(tmp_path / "whole"):
        assert (folder / path.name).read_bytes() == path.read_bytes()
    assert convert_report(emlio, "synthetic", folder, *SETTINGS, "--check")["checked"]


def test_other_options_do_not_go_on(emlio: Emlio, emlio_bin: str, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    break_off(emlio_bin, tmp_path, folder, signal.SIGKILL, more_shards=2)
    other = ["synthetic", folder, "--records", 10, "--record-bytes", 8]
    error = convert_report(emlio, *other, code=2)["error"]
    assert "unfinished conversion with shards 32 instead of 1" in error["message"]
    assert convert_report(emlio, *other, "--overwrite")["kept_shards"] == 0
    assert len(list(folder.iterdir())) == 1


def test_an_unfinished_conversion_is_not_a_data_set(
    emlio: Emlio, emlio_bin: str, tmp_path: Path
) -> None:
    folder = tmp_path / "shards"
    break_off(emlio_bin, tmp_path, folder, signal.SIGKILL, more_shards=2)
    for pattern in (folder, folder / "*", folder / "*" / "*"):
        emlio("index", pattern, code=1)
    message = convert_report(emlio, "synthetic", folder, *SETTINGS, "--check", code=1)["error"]
    assert "unfinished" in message["message"]


def test_two_conversions_into_one_folder_do_not_mix(
    emlio: Emlio, emlio_bin: str, tmp_path: Path
) -> None:
    folder = tmp_path / "shards"
    process = start(emlio_bin, tmp_path, "synthetic", folder, *SETTINGS)
    try:
        wait_until(lambda: shards_in(folder / ".emlio-convert") != [], "it is at work")
        error = convert_report(emlio, "synthetic", folder, *SETTINGS, code=1)["error"]
        assert "another process is at work" in error["message"]
        assert str(folder) in error["message"]
    finally:
        process.kill()
        process.wait()


def make_images(folder: Path) -> None:
    jpeg = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")
    for label in ("cat", "dog"):
        (folder / label).mkdir(parents=True)
        for number in range(20):
            (folder / label / f"{number}.jpg").write_bytes(jpeg + f"{label} {number}".encode())


def test_check_finds_what_differs_from_the_source(emlio: Emlio, tmp_path: Path) -> None:
    source, folder = tmp_path / "images", tmp_path / "shards"
    make_images(source)
    command = ["imagefolder", source, folder, "--shards", 4]
    convert_report(emlio, *command)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    report = convert_report(emlio, *command, "--check")
    assert report["checked"]
    assert report["records"] == 40
    assert report["classes"] == ["cat", "dog"]
    assert "equal to the source" in emlio("convert", *command, "--check").stdout

    def difference() -> str:
        error = convert_report(emlio, *command, "--check", code=1)["error"]
        return str(error["message"])

    image = source / "dog" / "7.jpg"
    good = image.read_bytes()
    image.write_bytes(good[:-1] + b"8")
    assert str(image) in difference()
    assert ".tfrecord, record " in difference()
    image.write_bytes(good)
    flip_bit(shard_path(folder, 2), 30)
    assert f"{shard_path(folder, 2)}, record 0 at offset 0: payload checksum" in difference()
    flip_bit(shard_path(folder, 2), 30)
    shard_path(folder, 3).rename(folder / "gone")
    assert "00003-of-00004.tfrecord" in difference()
    (folder / "gone").rename(folder / "train-00003-of-00004.tfrecord")
    (folder / "labels.txt").write_text("dog\ncat\n")
    assert "labels.txt" in difference()
    (folder / "labels.txt").write_text("cat\ndog\n")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert convert_report(emlio, *command, "--check")["checked"]


def test_shards_of_an_unfortunate_size_are_told(emlio: Emlio, tmp_path: Path) -> None:
    done = emlio(
        *("convert", "synthetic", tmp_path / "many", "--records", 400, "--record-bytes", 1000),
        *("--shards", 100, "--json", "-"),
    )
    assert "100 shards" in done.stderr
    assert "small" in done.stderr
    assert json.loads(done.stdout)["recommended_shards"] == 1


def compressed(emlio: Emlio, folder: Path, count: int, record_bytes: int) -> dict[str, bytes]:
    """A folder of shards of 20 records, gzip and zlib in turn; gives what each holds, by name."""
    emlio(
        *("convert", "synthetic", folder.parent / "plain", "--records", 20 * count),
        *("--record-bytes", record_bytes, "--shards", count),
    )
    folder.mkdir()
    contents = {}
    for number, path in enumerate(shards_in(folder.parent / "plain")):
        contents[path.name] = path.read_bytes()
        if number % 2 == 0:
            (folder / f"{path.name}.gz").write_bytes(gzip.compress(contents[path.name], 1))
        else:
            (folder / path.name).write_bytes(zlib.compress(contents[path.name], 1))
    return contents


def test_compressed_shards_become_plain_ones_that_can_be_served(
    emlio: Emlio, tmp_path: Path
) -> None:
    source, folder = tmp_path / "compressed", tmp_path / "shards"
    contents = compressed(emlio, source, 4, 1000)
    before = {path: path.read_bytes() for path in source.iterdir()}
    # The errors of those who want to read them name the command.
    for args in (("index", source), ("verify", source), ("pull", source, "--batch-size", 1)):
        done = emlio(*args, code=1)
        assert "emlio convert recompress" in done.stdout + done.stderr

    report = convert_report(emlio, "recompress", source, folder)
    assert report["gzip_sources"] == report["zlib_sources"] == 2
    assert report["plain_sources"] == 0
    assert report["records"] == 80
    assert report["source_bytes"] == sum(map(len, before.values()))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents
    assert {path: path.read_bytes() for path in source.iterdir()} == before
    check = convert_report(emlio, "recompress", source / "*", folder, "--check")
    assert check["checked"]
    assert check["records"] == 80
    emlio("pull", folder, "--batch-size", 10, "--check-once")

    again = convert_report(emlio, "recompress", source, folder, code=2)["error"]
    assert "holds 4 shards already" in again["message"]
    assert (
        "4 shards, 80 records"
        in emlio(
            "convert",
            "recompress",
            source / "*00000*",
            source / "*0000[1-3]*",
            folder,
            "--overwrite",
        ).stdout
    )


def test_decompressing_goes_on_after_a_kill(emlio: Emlio, emlio_bin: str, tmp_path: Path) -> None:
    source, folder = tmp_path / "compressed", tmp_path / "shards"
    contents = compressed(emlio, source, 12, 200_000)
    command = ["recompress", source, folder, "--jobs", 1]
    finished = break_off(emlio_bin, tmp_path, folder, signal.SIGKILL, 3, command)
    report = convert_report(emlio, *command)
    assert report["kept_shards"] in (finished, finished - 1)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


def test_a_damaged_compressed_shard_leaves_nothing_behind(emlio: Emlio, tmp_path: Path) -> None:
    source, folder = tmp_path / "compressed", tmp_path / "shards"
    compressed(emlio, source, 1, 1000)
    (path,) = source.iterdir()
    good = path.read_bytes()
    for bad, what in (
        (good[:-3], rf"{path.name} \(decompressed\), record 20 at offset 20320: damaged gzip data"),
        (good + b"more", r"bytes that do not belong to it follow its end"),
        (good[:-8] + bytes(8), r"incorrect data check"),
        (good[:5000] + b"\0" + good[5001:], r"record \d+ at offset \d+: "),
    ):
        path.write_bytes(bad)
        error = convert_report(emlio, "recompress", source, folder, code=1)["error"]
        assert re.search(what, error["message"])
        assert list(folder.iterdir()) == []


def test_two_conversions_are_never_mixed_in_one_folder(emlio: Emlio, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    for day in ("day1", "day2"):
        emlio("convert", "synthetic", tmp_path / day, "--records", 10, "--record-bytes", 10)
        (plain,) = shards_in(tmp_path / day)
        plain.rename(plain.with_name(day + ".tfrecord"))
    emlio("convert", "recompress", tmp_path / "day1", folder)
    for more in ((), ("--overwrite",), ("--check",)):
        error = convert_report(emlio, "recompress", tmp_path / "day2", folder, *more, code=None)
        assert "day1.tfrecord" in error["error"]["message"]
    assert [path.name for path in folder.iterdir()] == ["day1.tfrecord"]


@pytest.mark.parametrize("name", ["a.idx.gz", "labels.txt.gz", "a.emlio-index.gz", ".a.gz"])
def test_no_shard_gets_a_name_that_no_pattern_finds(
    emlio: Emlio, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "compressed" / name
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b""))
    error = convert_report(emlio, "recompress", path, tmp_path / "shards", code=2)["error"]
    assert "rename it" in error["message"]


def test_what_was_compressed_well_needs_no_memory(emlio: Emlio, tmp_path: Path) -> None:
    source, folder = tmp_path / "compressed", tmp_path / "shards"
    emlio("convert", "synthetic", tmp_path / "one", "--records", 1, "--record-bytes", 8)
    (one,) = shards_in(tmp_path / "one")
    plain = one.read_bytes() * 40_000
    source.mkdir()
    with gzip.open(source / "bomb", "wb") as bomb:
        for _ in range(150):
            bomb.write(plain)
    limit = 100 << 20
    assert (source / "bomb").stat().st_size < limit / 100 < limit < 150 * len(plain)

    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    emlio("convert", "recompress", source, folder, before=limit_memory)
    assert (folder / "bomb").stat().st_size == 150 * len(plain)
