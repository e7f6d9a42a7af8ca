# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Nobody can read what the program says: what it does and keeps is the same."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import DEADLINE_S, Emlio, environment, wait_until

BROKEN = ["full", "unread", "closed"]


@contextlib.contextmanager
def broken(kind: str, fd: int) -> Iterator[dict[str, Any]]:
    """Arguments of Popen with which `fd` cannot be written to."""
    stream = {1: "stdout", 2: "stderr"}[fd]
    if kind == "closed":
        yield {"preexec_fn": lambda: os.close(fd)}
        return
    if kind == "full":
        end = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, end = os.pipe()
        os.close(reader)
    try:
        yield {stream: end}
    finally:
        os.close(end)


@pytest.fixture(params=BROKEN)
def start(
    request: pytest.FixtureRequest, emlio_bin: str, tmp_path: Path
) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Starts `emlio` with a standard error that cannot be written to."""
    with broken(request.param, 2) as streams:
        yield lambda *args: subprocess.Popen(
            [emlio_bin, *map(str, args)],
            stdout=subprocess.DEVNULL,
            env=environment(tmp_path),
            **streams,
        )


def test_a_run_is_measured_and_kept(
    start: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    store = tmp_path / "a.db"
    report = tmp_path / "record.json"
    process = start(
        *("energy", "record", "--live", "--store", store, "--json", report),
        *("--connect-timeout-s", "0.2", "--node", "127.0.0.1:1"),  # something to warn of
        *("--", "sh", "-c", "sleep 0.3; exit 5"),
    )
    assert process.wait(DEADLINE_S) == 5
    assert json.loads(report.read_text())["exit_code"] == 5
    with contextlib.closing(sqlite3.connect(store)) as db:
        assert db.execute("SELECT exit_status FROM run").fetchall() == [(5,)]


def test_messages_of_the_log_are_lost_and_nothing_else(
    start: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    default = tmp_path / "data/emlio/energy.db"  # as command_line.environment has it
    default.parent.mkdir(parents=True)
    default.write_text("This is no data base.\n" * 100)
    process = start("energy", "record", "--", "sh", "-c", "exit 6")
    assert process.wait(DEADLINE_S) == 6


def test_an_error_is_an_exit_code(
    start: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    assert start("energy", "report", "--store", tmp_path / "none.db").wait(DEADLINE_S) == 1
    assert start("verify", tmp_path / "none").wait(DEADLINE_S) == 1
    assert start("energy", "record", "--no-such-option").wait(DEADLINE_S) == 2


def test_an_agent_and_a_daemon_end_in_order(
    start: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path, shards: Path
) -> None:
    for name, args in {
        "agent": ("energy", "agent"),
        "serve": ("serve", "--bind", "127.0.0.1:0", f"train={shards}"),
    }.items():
        ready, report = tmp_path / f"{name}-ready", tmp_path / f"{name}.json"
        process = start(*args, "--ready-file", ready, "--json", report)
        wait_until(ready.exists, f"{name} is ready")
        process.terminate()
        assert process.wait(DEADLINE_S) in (0, 128 + signal.SIGTERM)
        assert "error" not in json.loads(report.read_text())


def test_what_is_opened_is_not_taken_for_standard_error(
    emlio: Emlio, emlio_bin: str, tmp_path: Path
) -> None:
    # All three are closed, so that the first files have their numbers.
    report = tmp_path / "record.json"
    done = subprocess.run(
        [
            *(emlio_bin, "energy", "record", "--json", str(report)),
            *("--store", str(tmp_path / "a.db"), "--", "true"),
        ],
        env=environment(tmp_path),
        timeout=DEADLINE_S,
        preexec_fn=lambda: os.closerange(0, 3),
    )
    assert done.returncode == 0
    assert json.loads(report.read_text())["store"] == str(tmp_path / "a.db")
    emlio("energy", "report", "--store", tmp_path / "a.db")


@pytest.mark.parametrize(("kind", "code"), [("full", 1), ("unread", 141), ("closed", 1)])
def test_results_that_nobody_can_read_are_an_exit_code(
    emlio_bin: str, tmp_path: Path, shards: Path, kind: str, code: int
) -> None:
    plan = [emlio_bin, "plan", str(shards), "--batch-size", "1", "--steps", ":"]
    with broken(kind, 1) as streams:
        done = subprocess.run(
            plan, stderr=subprocess.PIPE, timeout=DEADLINE_S, env=environment(tmp_path), **streams
        )
    assert done.returncode == code, done.stderr
    # `| head` has what it wants.
    assert (done.stderr == b"") == (kind == "unread")


@pytest.mark.parametrize("restore", [True, False], ids=["default", "ignored"])
def test_a_command_has_the_pipes_that_emlio_was_started_with(
    emlio_bin: str, tmp_path: Path, restore: bool
) -> None:
    done = subprocess.run(
        [emlio_bin, "energy", "record", "--no-store", "--", "cat", "/proc/self/status"],
        restore_signals=restore,  # Python ignores SIGPIPE
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=DEADLINE_S,
        env=environment(tmp_path),
    )
    (ignored,) = [line.split()[1] for line in done.stdout.splitlines() if line[:7] == "SigIgn:"]
    assert bool(int(ignored, 16) >> (signal.SIGPIPE - 1) & 1) != restore
