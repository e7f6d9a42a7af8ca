# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What every command makes of a shard that was cut."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import FRAMED_BYTES, Emlio, shard_path
from daemon_process import Serve

LEFT = FRAMED_BYTES - 5  # of the last record
KEEP = ["--on-bad-shard", "keep-readable"]


@pytest.fixture
def cut(shards: Path) -> Path:
    """The folder, with the last 5 bytes of its second shard cut off."""
    shard = shard_path(shards, 1)
    shard.write_bytes(shard.read_bytes()[:-5])
    return shards


def arguments(command: str, folder: Path) -> list[object]:
    of_command: dict[str, list[object]] = {
        "serve": ["serve", f"t={folder}", "--check"],
        "pull": ["pull", folder, "--batch-size", 10],
        "index": ["index", folder],
        "inspect": ["inspect", folder],
        "plan": ["plan", folder, "--batch-size", 10],
    }
    return of_command[command]


@pytest.mark.parametrize("command", ["serve", "pull", "index", "inspect", "plan"])
def test_it_is_an_error_or_read_up_to_the_cut(emlio: Emlio, cut: Path, command: str) -> None:
    done = emlio(*arguments(command, cut), code=1)
    assert "TRUNCATED" in done.stderr
    assert "record 99" in done.stderr
    done = emlio(*arguments(command, cut), *KEEP)
    assert "99 records can be read" in done.stderr
    assert f"{LEFT} bytes at the end are left out" in done.stderr
    if command != "serve":  # nothing that is printed for people hides it
        assert "299" in emlio(*arguments(command, cut), *KEEP).stdout
    emlio(*arguments(command, cut), "--on-bad-shard", "skip", code=2)


def report(emlio: Emlio, *args: object, code: int = 0) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(emlio(*args, "--json", "-", code=code).stdout)
    return result


def test_reports_say_how_much_is_missing(emlio: Emlio, cut: Path) -> None:
    for command in ("index", "inspect"):
        found = report(emlio, *arguments(command, cut), *KEEP)
        assert found["records"] == 299
        assert found["unreadable_bytes"] == LEFT
        assert [shard["unreadable_bytes"] for shard in found["shard_list"]] == [0, LEFT, 0]
    pulled = report(emlio, *arguments("pull", cut), *KEEP, "--check-once")
    assert list(pulled["unreadable_bytes_of_shard"].values()) == [LEFT]
    assert pulled["check_once"]["ok"]
    [place] = report(emlio, "verify", cut, code=1)["places"]
    assert (place["kind"], place["record"]) == ("truncated", 99)
    assert place["unreadable_bytes"] == LEFT
    assert f"{LEFT} bytes up to the end" in emlio("verify", cut, code=1).stdout


def test_a_daemon_tells_its_receivers(emlio: Emlio, cut: Path, serve: Serve) -> None:
    daemon = serve({"train": cut}, KEEP)
    pulled = report(emlio, "pull", f"{daemon.endpoint}/train", "--batch-size", 10)
    assert pulled["records"] == 299
    assert list(pulled["unreadable_bytes_of_shard"].values()) == [LEFT]
    done = emlio("inspect", f"{daemon.endpoint}/train")
    assert "1 damaged shard left out" in done.stdout


def test_an_index_that_counts_more_tells_a_cut_between_records(emlio: Emlio, shards: Path) -> None:
    emlio("index", shards, "--dali-idx")
    shard = shard_path(shards, 1)
    shard.write_bytes(shard.read_bytes()[: 90 * FRAMED_BYTES])
    done = emlio("index", shards, code=1)
    assert f"{shard.name}.idx counts 100 records" in done.stderr
    assert "index --rebuild" in done.stderr
    found = report(emlio, "index", shards, *KEEP)
    assert (found["records"], found["unreadable_bytes"]) == (290, 0)
    emlio("index", shards, code=1)
    found = report(emlio, "index", shards, "--rebuild", "--dali-idx")
    assert (found["records"], found["dali_written"]) == (290, 1)
    assert emlio("index", shards).stderr == ""
