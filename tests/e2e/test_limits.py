# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers that no machine can satisfy, and systems that have nothing left to give."""

from __future__ import annotations

import functools
import re
import resource
from pathlib import Path

import pytest

from command_line import RECORD_BYTES, Emlio

# What each command needs besides the option in question. --records is not tried: a large number of
# records is a wish that can be granted.
COMMANDS: dict[str, list[object]] = {
    "serve": ["t={shards}", "--check"],
    "pull": ["{shards}", "--batch-size", 10, "--batches", 1],
    "index": ["{shards}"],
    "verify": ["{shards}"],
    "convert synthetic": ["{out}", "--records", 20, "--record-bytes", 8],
}
NUMBERS = ["0", "100000", "2147483648", "1000000000000", "9223372036854775808", "1e18"]


def without(args: list[str], option: str) -> list[str]:
    """The arguments without an option and its value."""
    if option not in args:
        return args
    at = args.index(option)
    return args[:at] + args[at + 2 :]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_number_makes_a_command_crash(
    emlio: Emlio, shards: Path, tmp_path: Path, command: str
) -> None:
    words = command.split()
    options = re.findall(r"(--[a-z-]+) (?:N|MIB|S|SIZE)\b", emlio(*words, "--help").stdout)
    assert len(options) >= 2
    given = [str(arg).format(shards=shards, out=tmp_path / "out") for arg in COMMANDS[command]]
    for option in options:
        if option == "--records":
            continue
        others = without(given, "--batch-size" if option == "--global-batch-size" else option)
        for number in NUMBERS:
            extra = ["--overwrite"] if words[0] == "convert" else []
            done = emlio(*words, *others, option, number, *extra, code=None)
            assert done.returncode in (0, 1, 2), (
                f"{option} {number}: exit code {done.returncode}\n{done.stderr}"
            )
            assert done.returncode == 0 or done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["serve", "t=x", "--gather-threads"],
        ["pull", "x", "--batch-size", 1, "--workers"],
        ["pull", "x", "--batch-size", 1, "--streams"],
        ["index", "x", "--jobs"],
        ["verify", "x", "--jobs"],
        ["convert", "synthetic", "x", "--records", 1, "--record-bytes", 8, "--jobs"],
        ["convert", "imagefolder", "x", "y", "--jobs"],
    ],
)
def test_thread_counts_beyond_any_machine_are_wrong_command_lines(
    emlio: Emlio, args: list[object]
) -> None:
    for count in (100_000, 10**9):
        assert str(count) in emlio(*args, count, code=2).stderr


@pytest.mark.parametrize("command", ["serve", "pull", "index", "verify"])
@pytest.mark.parametrize("size", ["0", "0.0000001", "-1", "4096", "1e30", "nan"])
def test_a_largest_record_that_cannot_be_is_refused_by_every_command_alike(
    emlio: Emlio, command: str, size: str
) -> None:
    extra = {"serve": ["t=x"], "pull": ["x", "--batch-size", "1"]}
    done = emlio(command, *extra.get(command, ["x"]), "--max-record-mb", size, code=2)
    assert "--max-record-mb" in done.stderr
    assert "above 0 and below 4096" in done.stderr or "Could not convert" in done.stderr


@pytest.mark.parametrize("command", ["serve", "pull", "index", "verify"])
def test_records_over_the_limit_are_refused_by_every_command_alike(
    emlio: Emlio, shards: Path, command: str
) -> None:
    args = {
        "serve": [f"t={shards}", "--check"],
        "pull": [str(shards), "--batch-size", "1"],
    }
    extra = args.get(command, [str(shards)])
    emlio(command, *extra, "--max-record-mb", RECORD_BYTES / 2**20)
    done = emlio(command, *extra, "--max-record-mb", (RECORD_BYTES - 1) / 2**20, code=1)
    assert str(RECORD_BYTES - 1) in done.stderr + done.stdout


GIB = 1 << 30


def limit_memory(stack_bytes: int, address_space_bytes: int) -> None:
    """Every thread takes `stack_bytes` of the address space."""
    resource.setrlimit(
        resource.RLIMIT_STACK, (stack_bytes, resource.getrlimit(resource.RLIMIT_STACK)[1])
    )
    resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes, address_space_bytes))


NO_THREADS = functools.partial(limit_memory, 4 * GIB, 4 * GIB)
FEW_THREADS = functools.partial(limit_memory, GIB, 5 * GIB)


@pytest.mark.parametrize(
    "args",
    [
        ["verify", "{shards}"],
        ["convert", "synthetic", "{out}", "--records", 20, "--record-bytes", 8],
        ["pull", "tcp://127.0.0.1:1/x", "--batch-size", 1],
        ["pull", "{shards}", "--batch-size", 1],
        ["serve", "t={shards}", "--check"],
    ],
    ids=lambda args: " ".join(str(arg) for arg in args[:2]),
)
def test_a_system_without_threads_is_an_error_that_says_so(
    emlio: Emlio, shards: Path, tmp_path: Path, args: list[object]
) -> None:
    given = [str(arg).format(shards=shards, out=tmp_path / "out") for arg in args]
    assert "cannot start thread" in emlio(*given, code=1, before=NO_THREADS).stderr


def test_work_is_done_with_as_many_threads_as_there_are(
    emlio: Emlio, shards: Path, tmp_path: Path
) -> None:
    emlio("index", shards, "--jobs", 64, before=NO_THREADS)  # the main thread alone
    many = ["--records", 640, "--record-bytes", 8, "--shards", 64, "--jobs", 64]
    done = emlio("convert", "synthetic", tmp_path / "out", *many, before=FEW_THREADS)
    assert "of 64 threads" in done.stderr
    done = emlio("verify", tmp_path / "out", "--jobs", 64, before=FEW_THREADS)
    assert "of 64 threads" in done.stderr
    assert "640 good records" in done.stdout


def test_local_sources_are_read_with_as_many_threads_as_there_are(
    emlio: Emlio, shards: Path
) -> None:
    # Of the four threads two are the receiver's and the daemon's.
    done = emlio("pull", shards, "--batch-size", 10, "--check-once", before=FEW_THREADS, code=None)
    assert done.returncode == 0 or "cannot start thread" in done.stderr
