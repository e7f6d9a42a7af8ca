# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Every row of the table of exit codes in docs/cli.md that no other test has."""

from __future__ import annotations

import functools
import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import (
    DEADLINE_S,
    FRAMED_BYTES,
    RECORDS,
    Emlio,
    endless_pull,
    environment,
    pull_report,
    shard_path,
    wait_until,
)
from daemon_process import Daemon, Serve

# --- 1: the data or the run are at fault


def test_ranks_that_disagree_about_the_plan(
    emlio: Emlio, emlio_bin: str, serve: Serve, shards: Path, tmp_path: Path
) -> None:
    source = f"{serve({'train': shards}).endpoint}/train"
    world = ("--world-size", 2, "--job", "j")
    with endless_pull(emlio_bin, tmp_path, source, *world, "--rank", 0):
        other = pull_report(
            emlio, source, *world, "--rank", 1, "--batch-size", 10, "--seed", 1, code=1
        )
    assert other["error"]["code"] == "PLAN_MISMATCH"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (["nothing=int64"], "lacks it"),
        (["id=float"], "has it as int64"),
        (["id=int64[2]"], "has 1 values of it"),
    ],
)
def test_records_that_do_not_have_the_features(
    emlio: Emlio, tmp_path: Path, spec: list[str], said: str
) -> None:
    folder = tmp_path / "examples"
    emlio("convert", "synthetic", folder, "--records", 9, "--record-bytes", 8, "--example")
    error = pull_report(emlio, folder, "--batch-size", 2, "--features", *spec, code=1)["error"]
    assert said in error["message"]
    assert shard_path(folder, 0).name in error["message"]


def test_raw_records_where_features_are_asked_for(emlio: Emlio, shards: Path) -> None:
    error = pull_report(emlio, shards, "--batch-size", 2, "--features", "id=int64", code=1)["error"]
    assert shard_path(shards, 0).name in error["message"]


@pytest.mark.parametrize("command", ["index", "pull", "serve"])
def test_truncated_shards(emlio: Emlio, shards: Path, command: str) -> None:
    path = shard_path(shards, 1)
    with path.open("r+b") as file:
        file.truncate(5 * FRAMED_BYTES + 3)
    args = {"serve": [f"t={shards}", "--check"], "pull": [str(shards), "--batch-size", "1"]}
    done = emlio(command, *args.get(command, [str(shards)]), code=1)
    assert f"{path}, record 5 at offset {5 * FRAMED_BYTES}" in done.stderr


def test_places_that_cannot_be_written(emlio: Emlio, shards: Path, tmp_path: Path) -> None:
    def fails(*args: object) -> None:
        assert "/proc/nope" in emlio(*args, code=1).stderr

    settings = ("--records", 1, "--record-bytes", 8)
    fails("convert", "synthetic", "/proc/nope", *settings)
    fails("convert", "synthetic", tmp_path / "new", *settings, "--json", "/proc/nope")
    fails("pull", shards, "--batch-size", 1, "--dump-indices", "/proc/nope")
    fails("serve", f"t={shards}", "--ready-file", "/proc/nope")
    fails("verify", shards, "--json", "/proc/nope")


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("index", "SHARDS"),
        ("index", "SHARDS", "--json", "-"),
        ("inspect", "SHARDS"),
        ("plan", "SHARDS", "--batch-size", "1", "--steps", ":"),  # more than stdio buffers
    ],
    ids=" ".join,
)
def test_results_that_cannot_be_written_are_a_failure(
    emlio_bin: str, shards: Path, tmp_path: Path, args: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [emlio_bin, *(str(shards) if arg == "SHARDS" else arg for arg in args)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
            env=environment(tmp_path),
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- 2: the command line is at fault


def test_start_behind_the_last_step_reads_nothing_else(emlio: Emlio, shards: Path) -> None:
    for step in (10, 11, 2**63):
        report = pull_report(emlio, shards, "--batch-size", 30, "--start", f"3:{step}", code=2)
        assert f"--start 3:{step}" in report["error"]["message"]
        assert (
            "the last step of an epoch is 9; the next epoch begins at 4:0"
            in (report["error"]["message"])
        )
    last = pull_report(emlio, shards, "--batch-size", 30, "--start", "3:9")
    assert [(e["epoch"], e["batches"]) for e in last["epochs"]] == [(3, 1)]


def test_epochs_beyond_the_last_one(emlio: Emlio, shards: Path) -> None:
    last = 2**64 - 1
    report = pull_report(
        emlio, shards, "--batch-size", 30, "--start", f"{last}:0", "--epochs", 2, code=2
    )
    assert "--start and --epochs" in report["error"]["message"]


# --- 3: a peer could not be reached, was lost, or did not answer in time


def test_peer_that_is_lost(emlio_bin: str, serve: Serve, shards: Path, tmp_path: Path) -> None:
    daemon = serve({"train": shards})
    source = f"{daemon.endpoint}/train"
    with endless_pull(emlio_bin, tmp_path, source, "--timeout-s", 5) as process:
        daemon.process.kill()
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 3
    report = json.loads(output)
    assert report["error"]["code"] in ("UNAVAILABLE", "TIMEOUT")
    assert daemon.endpoint in report["error"]["message"]


def test_peer_that_does_not_answer(emlio: Emlio) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        report = pull_report(emlio, f"{endpoint}/x", "--batch-size", 1, "--timeout-s", 0.5, code=3)
    assert endpoint in report["error"]["message"]


# --- 130 and 143: interrupted


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["convert", "verify"])
def test_interrupted(
    emlio_bin: str, tmp_path: Path, number: signal.Signals, code: int, command: str
) -> None:
    folder = tmp_path / "shards"
    args: list[object] = ["convert", "synthetic", folder, "--records", 10**7]
    args += ["--record-bytes", 1000]
    if command == "verify":
        # Nothing but headers, in a file that takes no room and long to read.
        folder.mkdir()
        for name in range(64):
            with (folder / f"{name}.tfrecord").open("wb") as file:
                file.write(bytes.fromhex("000000400000000091474f7f"))
                file.truncate(2**30 + 16)
        args = ["verify", folder, "--max-record-mb", 2048]
    process = subprocess.Popen(
        [emlio_bin, *map(str, args), "--json", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    )
    wait_until(lambda: folder.is_dir() and any(folder.iterdir()), "it has begun")
    wait_until(lambda: signal_is_caught(process.pid, number), "it listens to signals")
    process.send_signal(number)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code
    assert json.loads(output)["error"]["code"] == "CANCELLED"


def signal_is_caught(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def is_draining(daemon: Daemon) -> bool:
    return "stopping" in daemon.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_sent_twice_at_once_count_once(
    emlio_bin: str, serve: Serve, shards: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """As `timeout` does, which signals the process and its group."""
    with endless_pull(emlio_bin, tmp_path, shards) as pull:
        pull.send_signal(number)
        pull.send_signal(number)
        output, _ = pull.communicate(timeout=DEADLINE_S)
    assert pull.returncode == 128 + number
    assert json.loads(output)["records"] > 0

    # The daemon must have seen the first one when the second is sent, within a second. On a busy
    # machine that may take several attempts.
    for _ in range(10):
        daemon = serve({"train": shards}, extra_args=["--drain-s", str(DEADLINE_S)])
        with endless_pull(emlio_bin, tmp_path, f"{daemon.endpoint}/train") as pull:
            first = time.monotonic()
            daemon.process.send_signal(number)
            wait_until(functools.partial(is_draining, daemon), "draining")
            daemon.process.send_signal(number)
            apart_s = time.monotonic() - first
            pull.send_signal(signal.SIGINT)
            pull.communicate(timeout=DEADLINE_S)
            exit_code = daemon.process.wait(DEADLINE_S)
        if apart_s < 0.9:
            break
    else:
        pytest.skip("this machine never sent two signals within a second")
    assert exit_code == 0


def rain(process: subprocess.Popen[Any], number: signal.Signals) -> bool:
    """Sends a signal again and again until the process has ended; whether within a second."""
    first = time.monotonic()
    while process.poll() is None:
        process.send_signal(number)
        assert time.monotonic() - first < DEADLINE_S
    return time.monotonic() - first < 0.9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_again_until_the_end_changes_nothing(
    emlio_bin: str, serve: Serve, shards: Path, tmp_path: Path, number: signal.Signals
) -> None:
    for _ in range(10):
        with endless_pull(emlio_bin, tmp_path, shards) as pull:
            pull_in_time = rain(pull, number)
        daemon = serve({"train": shards})
        if rain(daemon.process, number) and pull_in_time:
            break
    else:
        pytest.skip("this machine never ended a process within a second")
    assert pull.returncode == 128 + number
    assert daemon.process.returncode == 0


def test_another_signal_ends_a_stuck_pull_at_once(
    emlio_bin: str, shards: Path, tmp_path: Path
) -> None:
    with endless_pull(emlio_bin, tmp_path, shards) as pull:
        pull.send_signal(signal.SIGSTOP)
        pull.send_signal(signal.SIGINT)
        pull.send_signal(signal.SIGTERM)
        pull.send_signal(signal.SIGCONT)
        pull.communicate(timeout=DEADLINE_S)
    assert pull.returncode in (-signal.SIGTERM, -signal.SIGINT)


def test_everything_is_zero_when_it_is_done(emlio: Emlio, shards: Path) -> None:
    assert pull_report(emlio, shards, "--batch-size", 7)["records"] == RECORDS
