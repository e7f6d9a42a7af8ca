# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The `emlio` executable as its users meet it: results, messages, exit codes, signals."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from command_line import (
    DEADLINE_S,
    FRAMED_BYTES,
    RECORD_BYTES,
    RECORDS,
    SHARDS,
    Emlio,
    endless_pull,
    flip_bit,
    make_shards,
    pull_report,
    read_dump,
    shard_path,
    wait_until,
)
from daemon_process import Daemon, Serve

# --- the command line itself


def test_version_is_that_of_the_project(emlio: Emlio) -> None:
    version = (Path(__file__).parents[2] / "VERSION").read_text().strip()
    assert emlio("--version").stdout == f"emlio {version}\n"


def test_help_lists_exit_codes_and_every_subcommand(emlio: Emlio) -> None:
    text = emlio("--help").stdout
    assert "Exit codes:" in text
    for name in ("serve", "pull", "index", "verify", "inspect", "plan", "convert"):
        assert name in text
        assert f"emlio {name}" in emlio(name, "--help").stdout or name == "convert"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Usage: emlio"),
        (["frobnicate"], "frobnicate"),
        (["convert"], "imagefolder"),
        (["index"], "patterns"),
        (["pull", "x", "--batch-size", "1", "--order", "sorted"], "step and ready"),
        (["pull", "x", "--batch-size", "1", "--ready-window", "0"], "--ready-window"),
        (["serve", "no-equals-sign"], "NAME=PATTERN"),
        (["serve", "=x"], "NAME=PATTERN"),
        (["serve", "a/b=x"], "a/b"),
        (["pull", "x"], "--batch-size"),
        (["pull", "x", "--batch-size", "1", "--global-batch-size", "2"], "--batch-size"),
        (["pull", "x", "--batch-size", "-1"], "--batch-size"),
        (["pull", "x", "--batch-size", "1", "--epochs", "0"], "--epochs"),
        (["pull", "x", "--batch-size", "1", "--start", "7"], "EPOCH:STEP"),
        (["pull", "x", "--batch-size", "1", "--shuffle", "some"], "'none', 'full' or 'block'"),
        (["pull", "x", "--batch-size", "1", "--tail", "some"], "'drop', 'keep' or 'pad'"),
        (["pull", "x", "--batch-size", "1", "--shuffle-block", "4MB/s"], "such as '4MiB'"),
        (["pull", "x", "--batch-size", "1", "--shuffle-window", "0"], "--shuffle-window"),
        (["pull", "x", "--batch-size", "1", "--features", "image"], "NAME=SPEC"),
        (["pull", "x", "--batch-size", "1", "--timeout-s", "-1"], "--timeout-s"),
        (["verify", "x", "--log", "loud"], "loud"),
        (["convert", "synthetic", "x", "--records", "1", "--record-bytes", "1Q"], "--record-bytes"),
        (["index", "x", "--index-dir", "y", "--beside"], "--beside"),
    ],
)
def test_wrong_command_line_is_explained_with_exit_code_2(
    emlio: Emlio, args: list[str], said: str
) -> None:
    done = emlio(*args, code=2)
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "command",
    [
        ["index"],
        ["verify"],
        ["pull", "--batch-size", 1],
        ["serve", "--check"],
    ],
    ids=lambda command: str(command[0]),
)
def test_pattern_without_a_match_is_named(
    emlio: Emlio, tmp_path: Path, command: list[object]
) -> None:
    pattern = tmp_path / "nothing-*.tfrecord"
    argument = f"train={pattern}" if command[0] == "serve" else str(pattern)
    assert str(pattern) in emlio(*command, argument, code=1).stderr


@pytest.mark.parametrize("command", [["index"], ["verify"], ["pull", "--batch-size", 1]])
def test_shards_without_any_record_are_an_error(
    emlio: Emlio, tmp_path: Path, command: list[object]
) -> None:
    (tmp_path / "empty.tfrecord").touch()
    assert "empty.tfrecord" in emlio(*command, tmp_path / "empty.tfrecord", code=1).stderr


# --- convert, index, verify


def test_convert_index_verify_agree(emlio: Emlio, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    made = json.loads(
        emlio(
            *("convert", "synthetic", folder, "--records", RECORDS, "--record-bytes", "1KB"),
            *("--shards", SHARDS, "--json", "-"),
        ).stdout
    )
    indexed = json.loads(emlio("index", folder, "--json", "-").stdout)
    verified = json.loads(emlio("verify", folder, "--json", "-").stdout)
    for report in (made, indexed, verified):
        assert report["shards"] == SHARDS
        assert report["records"] == RECORDS
        assert report["payload_bytes"] == RECORDS * RECORD_BYTES
        assert report["seconds"] >= 0
    assert made["file_bytes"] == sum(p.stat().st_size for p in folder.glob("*.tfrecord"))
    assert verified["bad_places"] == 0
    assert verified["places"] == []
    assert re.fullmatch("[0-9a-f]{32}", indexed["digest"])
    assert [shard["records"] for shard in indexed["shard_list"]] == [RECORDS // SHARDS] * SHARDS


def test_index_goes_beside_the_shards_or_into_a_folder(
    emlio: Emlio, shards: Path, tmp_path: Path
) -> None:
    before = set(shards.iterdir())
    emlio("index", shards, "--index-dir", tmp_path / "indexes")
    assert set(shards.iterdir()) == before
    assert any((tmp_path / "indexes").rglob("*"))
    first = json.loads(emlio("index", shards, "--beside", "--json", "-").stdout)
    assert len(set(shards.iterdir()) - before) == SHARDS
    # They are no shards, and they are used again.
    again = json.loads(emlio("index", shards, "--beside", "--json", "-").stdout)
    assert again["digest"] == first["digest"]
    assert again["shards"] == SHARDS


def test_json_goes_to_a_file_too_and_people_still_see_the_result(
    emlio: Emlio, shards: Path, tmp_path: Path
) -> None:
    done = emlio("index", shards, "--json", tmp_path / "report.json")
    assert "300 records" in done.stdout
    assert json.loads((tmp_path / "report.json").read_text())["records"] == RECORDS
    assert "/nowhere/" in emlio("index", shards, "--json", "/nowhere/x.json", code=1).stderr


def test_convert_leaves_existing_shards_alone_unless_told(emlio: Emlio, shards: Path) -> None:
    before = {path.name: path.read_bytes() for path in shards.iterdir()}
    again = ("convert", "synthetic", shards, "--records", 10, "--record-bytes", 8)
    assert "overwrite" in emlio(*again, code=2).stderr
    assert {path.name: path.read_bytes() for path in shards.iterdir()} == before
    emlio(*again, "--overwrite")
    assert json.loads(emlio("index", shards, "--json", "-").stdout)["records"] == 10


def test_interrupted_convert_leaves_no_shard(emlio_bin: str, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    process = subprocess.Popen(
        [
            *(emlio_bin, "convert", "synthetic", str(folder), "--records", "40000"),
            *("--record-bytes", "100KB", "--shards", "4", "--json", "-"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    wait_until(lambda: folder.is_dir() and any(folder.iterdir()), "a file is begun")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert json.loads(output)["error"]["code"] == "CANCELLED"
    assert list(folder.glob("*.tfrecord")) == []


def test_image_folder_becomes_labelled_examples(emlio: Emlio, tmp_path: Path) -> None:
    jpeg = bytes.fromhex("ffd8ffe000104a46494600010100000100010000") + b"x" * 100 + b"\xff\xd9"
    for label in ("cat", "dog"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(5):
            (tmp_path / "images" / label / f"{number}.jpg").write_bytes(jpeg)
    made = json.loads(
        emlio("convert", "imagefolder", tmp_path / "images", tmp_path / "out", "--json", "-").stdout
    )
    assert made["records"] == 10
    assert made["classes"] == ["cat", "dog"]
    pulled = emlio(
        *("pull", tmp_path / "out" / "*.tfrecord", "--batch-size", 4, "--check-once"),
        *("--features", "image/encoded=bytes", "image/class/label=int64", "--json", "-"),
    )
    assert json.loads(pulled.stdout)["records"] == 10
    wrong = emlio(
        *("pull", tmp_path / "out" / "*.tfrecord", "--batch-size", 4),
        *("--features", "image/class/label=float"),
        code=1,
    )
    assert "image/class/label" in wrong.stderr


def test_verify_finds_one_flipped_bit(emlio: Emlio, shards: Path) -> None:
    path = shard_path(shards, 1)
    offset = 40 * FRAMED_BYTES
    flip_bit(path, offset + 12 + 500)
    done = emlio("verify", shards, "--json", "-", code=1)
    report = json.loads(done.stdout)
    assert report["bad_places"] == 1
    assert report["records"] == RECORDS - 1
    (place,) = report["places"]
    assert place["shard"] == path.name
    assert place["path"] == str(path)
    assert place["record"] == 40
    assert place["offset"] == offset
    assert place["kind"] == "payload checksum"
    assert place["code"] == "CORRUPT"
    assert report["error"]["code"] == "CORRUPT"
    for_people = emlio("verify", shards, code=1).stdout
    assert f"{path}, record 40 at offset {offset}: payload checksum" in for_people


def test_verify_reports_every_place_and_goes_on_where_it_can(emlio: Emlio, shards: Path) -> None:
    flip_bit(shard_path(shards, 0), 7 * FRAMED_BYTES + 12)
    flip_bit(shard_path(shards, 0), 8 * FRAMED_BYTES + 12 + RECORD_BYTES)  # the checksum itself
    flip_bit(shard_path(shards, 1), 3 * FRAMED_BYTES)  # a length: the shard ends there
    flip_bit(shard_path(shards, 1), 5 * FRAMED_BYTES + 12)
    os.truncate(shard_path(shards, 2), 99 * FRAMED_BYTES + 500)
    report = json.loads(emlio("verify", shards, "--json", "-", code=1).stdout)
    assert [(p["shard"][-27:-18], p["record"], p["kind"]) for p in report["places"]] == [
        (shard_path(shards, 0).name[-27:-18], 7, "payload checksum"),
        (shard_path(shards, 0).name[-27:-18], 8, "payload checksum"),
        (shard_path(shards, 1).name[-27:-18], 3, "length checksum"),
        (shard_path(shards, 2).name[-27:-18], 99, "truncated"),
    ]
    assert report["bad_places"] == 4
    assert report["bad_shards"] == 3
    assert report["records"] == 98 + 3 + 99


def test_verify_lists_a_hundred_places_and_counts_the_rest(emlio: Emlio, shards: Path) -> None:
    for record in range(60):
        flip_bit(shard_path(shards, 0), record * FRAMED_BYTES + 12)
        flip_bit(shard_path(shards, 2), record * FRAMED_BYTES + 12)
    report = json.loads(emlio("verify", shards, "--json", "-", code=1).stdout)
    assert report["bad_places"] == 120
    assert len(report["places"]) == 100
    assert [p["record"] for p in report["places"]] == [*range(60), *range(40)]
    assert "20 more places" in emlio("verify", shards, code=1).stdout


def test_verify_recognises_what_is_no_shard(emlio: Emlio, tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 3)
    (tmp_path / "b.tfrecord").write_bytes(bytes.fromhex("1f8b0800000000000003") + b"z" * 50)
    report = json.loads(emlio("verify", tmp_path / "*.tfrecord", "--json", "-", code=1).stdout)
    pointer, gzip = report["places"]
    assert pointer["kind"] == "length checksum"
    assert "Git" in pointer["message"]
    assert gzip["kind"] == "compressed"
    assert "gzip" in gzip["message"]


def test_odd_file_names_are_served_and_json_stays_valid(emlio: Emlio, tmp_path: Path) -> None:
    folder = make_shards(emlio, tmp_path / "a b[1]")
    odd = os.fsencode(folder) + b"/caf\xe9 \xd0\xba.tfrecord"
    os.rename(shard_path(folder, 0), odd)
    report = json.loads(emlio("index", folder, "--json", "-").stdout)
    assert report["records"] == RECORDS
    flip_bit(Path(os.fsdecode(odd)), 12)
    report = json.loads(emlio("verify", folder, "--json", "-", code=1).stdout)
    assert report["places"][0]["shard"].startswith("caf")


def test_one_is_not_called_many(emlio: Emlio, serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    settings = ("--records", 1, "--record-bytes", 100)
    runs = [emlio("convert", "synthetic", folder, *settings)]
    runs.append(emlio("index", folder))
    runs.append(emlio("verify", folder))
    runs.append(emlio("pull", folder, "--batch-size", 1, "--check-once"))
    runs.append(emlio("serve", f"t={folder}", "--check"))
    flip_bit(shard_path(folder, 0), 12)
    runs.append(emlio("verify", folder, code=1))
    for run in runs:
        assert not re.search(r"\b1 (\w+ )?\w+[^\Ws]s\b", run.stdout + run.stderr), run
    assert "1 bad place in 1 of 1 shard" in runs[-1].stderr
    assert "1 record in 1 batch" in runs[3].stdout


# --- serve and pull


def once(passes: int) -> dict[str, object]:
    return {"ok": True, "passes": passes, "missing": 0, "repeated": 0, "unexpected": 0}


def test_pull_over_tcp_gets_every_record_once(
    emlio: Emlio, serve: Serve, shards: Path, tmp_path: Path
) -> None:
    daemon = serve({"train": shards / "*.tfrecord"})
    report = pull_report(
        emlio,
        *(f"{daemon.endpoint}/train", "--batch-size", 32, "--shuffle", "full", "--seed", 5),
        *("--epochs", 3, "--check-once", "--dump-indices", tmp_path / "dump"),
    )

    assert report["records"] == 3 * RECORDS
    assert report["batches"] == 3 * 10
    assert report["payload_bytes"] == 3 * RECORDS * RECORD_BYTES
    assert report["check_once"] == once(passes=3)
    assert report["bad_records"] == report["duplicates"] == report["refilled"] == 0
    assert report["seed"] == 5
    assert report["steps_per_epoch"] == 10
    assert re.fullmatch("[0-9a-f]{32}", report["plan_hash"])
    assert report["seconds"] > 0
    assert report["cpu_s_per_gb"] > 0
    assert 0 <= report["wait_share"] <= 1
    assert report["time_to_first_batch_s"] > 0
    assert report["records_per_s"] == pytest.approx(3 * RECORDS / report["seconds"])
    assert report["payload_mb_per_s"] == pytest.approx(
        report["payload_bytes"] / 1e6 / report["seconds"]
    )
    assert [epoch["records"] for epoch in report["epochs"]] == [RECORDS] * 3

    dump = read_dump(tmp_path / "dump")
    assert [line[:2] for line in dump] == [[e, s] for e in range(3) for s in range(10)]
    orders = [[i for line in dump if line[0] == e for i in line[2:]] for e in range(3)]
    assert all(sorted(order) == list(range(RECORDS)) for order in orders)
    assert orders[0] != orders[1]


def test_local_files_give_the_same_batches_as_tcp(
    emlio: Emlio, serve: Serve, shards: Path, tmp_path: Path
) -> None:
    settings = ("--batch-size", 7, "--shuffle", "full", "--seed", 3, "--check-once")
    source = f"{serve({'train': shards}).endpoint}/train"
    remote = pull_report(emlio, source, *settings, "--dump-indices", tmp_path / "remote")
    local = pull_report(emlio, shards, *settings, "--dump-indices", tmp_path / "local")
    assert local["plan_hash"] == remote["plan_hash"]
    assert (tmp_path / "local").read_text() == (tmp_path / "remote").read_text()


def test_order_ready_gives_the_same_batches_of_each_epoch(
    emlio: Emlio, serve: Serve, shards: Path, tmp_path: Path
) -> None:
    first, second, third = sorted(shards.glob("*.tfrecord"))
    sources = (
        f"{serve({'a': first}).endpoint}/a",
        f"{serve({'b': second}).endpoint}/b",
        third,
    )
    settings = (*sources, "--batch-size", 7, "--epochs", 2, "--check-once")
    in_order = pull_report(emlio, *settings, "--dump-indices", tmp_path / "step")
    ready = pull_report(
        emlio,
        *(*settings, "--order", "ready", "--ready-window", 30),
        *("--dump-indices", tmp_path / "ready"),
    )
    assert (in_order["order"], ready["order"], ready["ready_window"]) == ("step", "ready", 30)
    assert ready["plan_hash"] == in_order["plan_hash"]
    assert ready["check_once"] == once(passes=2)
    came = read_dump(tmp_path / "ready")
    assert [line[0] for line in came] == [0] * 43 + [1] * 43
    assert sorted(came) == read_dump(tmp_path / "step")
    some = pull_report(emlio, *settings, "--order", "ready", "--batches", 50)
    assert some["check_once"] == once(passes=2)


@pytest.mark.parametrize(
    ("sizes", "block_records", "window_blocks"),
    [
        (("--shuffle-block", 10, "--shuffle-window", 60), 10, 6),
        (("--shuffle-block", f"{10 * (RECORD_BYTES + 16)}B", "--shuffle-window", 55), 10, 6),
        (("--shuffle-window", "1MiB"), (1 << 20) // (RECORD_BYTES + 16), 1),
    ],
)
def test_blocks_of_neighbours_are_mixed_inside_windows(
    emlio: Emlio,
    serve: Serve,
    shards: Path,
    tmp_path: Path,
    sizes: tuple[str | int, ...],
    block_records: int,
    window_blocks: int,
) -> None:
    settings = ("--batch-size", 60, "--shuffle", "block", *sizes, "--epochs", 2, "--check-once")
    source = f"{serve({'train': shards}).endpoint}/train"
    report = pull_report(emlio, source, *settings, "--dump-indices", tmp_path / "dump")
    assert report["block_records"] == block_records
    assert report["window_blocks"] == window_blocks
    assert report["check_once"] == once(passes=2)
    first, *_ = dump = read_dump(tmp_path / "dump")
    assert [i for line in dump if line[0] == 0 for i in line[2:]] != [
        i for line in dump if line[0] == 1 for i in line[2:]
    ]
    # The first window is as many runs of neighbours as it has blocks, one more where one is split.
    numbers = sorted(first[2:])
    runs = 1 + sum(b != a + 1 for a, b in itertools.pairwise(numbers))
    assert runs <= window_blocks + 1 or block_records * window_blocks > len(numbers)


def test_sizes_of_blocks_without_blocks_are_refused(emlio: Emlio, shards: Path) -> None:
    failed = emlio("pull", shards, "--batch-size", 1, "--shuffle-block", 5, code=2)
    assert "shuffle 'block'" in failed.stderr


@pytest.mark.parametrize("shuffle", ["none", "full", "block"])
def test_padded_ranks_get_equally_many_batches_and_every_record_once(
    emlio: Emlio, tmp_path: Path, shuffle: str
) -> None:
    emlio(
        *("convert", "synthetic", tmp_path / "ten"),
        *("--records", 10, "--record-bytes", 100, "--shards", 2),
    )
    valid: list[int] = []
    for rank in range(4):
        report = pull_report(
            emlio,
            *(tmp_path / "ten", "--batch-size", 3, "--shuffle", shuffle, "--tail", "pad"),
            *("--rank", rank, "--world-size", 4, "--check-once"),
            *("--dump-indices", tmp_path / "dump"),
        )
        assert report["batches"] == report["steps_per_epoch"] == 1
        assert report["records"] == 3
        assert report["padded"] == (2 if rank == 3 else 0)
        assert report["check_once"] == once(passes=1)
        ((_, _, *indices),) = read_dump(tmp_path / "dump")
        valid += indices[: 3 - report["padded"]]
    assert sorted(valid) == list(range(10))


def test_ranks_share_an_epoch_and_start_resumes_it(
    emlio: Emlio, shards: Path, tmp_path: Path
) -> None:
    settings = (shards, "--global-batch-size", 30, "--shuffle", "full", "--check-once")
    seen: list[int] = []
    for rank in range(3):
        pull_report(
            emlio,
            *(*settings, "--rank", rank, "--world-size", 3),
            *("--dump-indices", tmp_path / "dump"),
        )
        seen += [i for line in read_dump(tmp_path / "dump") for i in line[2:]]
    assert sorted(seen) == list(range(RECORDS))

    pull_report(emlio, *settings, "--epochs", 2, "--dump-indices", tmp_path / "whole")
    resumed = pull_report(
        emlio, *settings, "--start", "0:8", "--epochs", 2, "--dump-indices", tmp_path / "rest"
    )
    assert read_dump(tmp_path / "rest") == read_dump(tmp_path / "whole")[8:]
    assert resumed["check_once"]["ok"]
    some = pull_report(
        emlio, *settings, "--epochs", 2, "--batches", 12, "--dump-indices", tmp_path / "some"
    )
    assert read_dump(tmp_path / "some") == read_dump(tmp_path / "whole")[:12]
    assert some["batches"] == 12
    assert some["check_once"] == once(passes=2)


def test_one_name_may_have_several_patterns(emlio: Emlio, serve: Serve, shards: Path) -> None:
    first, second, third = (shard_path(shards, n) for n in range(3))
    daemon = serve(
        {"two": first, "one": third}, extra_args=[f"two={second}", f"two={shards}/*-00001-of-*"]
    )
    assert pull_report(emlio, f"{daemon.endpoint}/two", "--batch-size", 9)["records"] == 200
    assert pull_report(emlio, f"{daemon.endpoint}/one", "--batch-size", 9)["records"] == 100


def test_corrupt_record_reaches_the_receiver_with_its_place(
    emlio: Emlio, serve: Serve, shards: Path
) -> None:
    path = shard_path(shards, 2)
    flip_bit(path, 17 * FRAMED_BYTES + 12)
    source = f"{serve({'train': shards}).endpoint}/train"
    report = pull_report(emlio, source, "--batch-size", 10, code=1)
    assert report["error"]["code"] == "CORRUPT"
    message = report["error"]["message"]
    assert path.name in message
    assert re.search(r"\b17\b", message)
    assert str(17 * FRAMED_BYTES) in message
    assert report["records"] <= 210


def test_unknown_data_set_is_named(emlio: Emlio, serve: Serve, shards: Path) -> None:
    source = f"{serve({'train': shards}).endpoint}/trian"
    report = pull_report(emlio, source, "--batch-size", 1, code=1)
    assert report["error"]["code"] == "NOT_FOUND"
    assert "trian" in report["error"]["message"]


def test_nobody_listening_is_exit_code_3(emlio: Emlio) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        report = pull_report(emlio, f"{endpoint}/x", "--batch-size", 1, "--timeout-s", 0.5, code=3)
    assert endpoint in report["error"]["message"]


def test_serve_refuses_a_wide_address_without_insecure(
    emlio: Emlio, serve: Serve, shards: Path
) -> None:
    wide = ["--bind", "0.0.0.0:0"]
    assert "--insecure" in emlio("serve", f"train={shards}", *wide, code=1).stderr
    daemon = serve({"train": shards}, extra_args=[*wide, "--insecure"])
    source = f"tcp://127.0.0.1:{daemon.port}/train"
    assert pull_report(emlio, source, "--batch-size", 50)["records"] == RECORDS


def test_serve_keeps_to_its_roots(emlio: Emlio, shards: Path, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link.tfrecord").symlink_to(shard_path(shards, 0))
    refused = emlio(
        "serve", f"train={tmp_path}/root/link.tfrecord", "--root", tmp_path / "root", code=1
    )
    assert "PERMISSION_DENIED" in refused.stderr
    emlio("serve", f"train={shards}", "--root", shards, "--check")


def test_port_in_use_is_named(emlio: Emlio, shards: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        done = emlio("serve", f"train={shards}", "--bind", bind, code=1)
    assert bind in done.stderr


def test_serve_prints_its_configuration_and_check_leaves(
    emlio: Emlio, serve: Serve, shards: Path
) -> None:
    settings = ["--send-buffer-mb", "64"]
    daemon = serve({"train": shards}, extra_args=settings)
    checked = emlio("serve", f"train={shards}", "--check", *settings).stderr
    for text in (checked, daemon.log.read_text()):
        assert "64 MiB" in text
        assert "train: 3 shards, 300 records, 300 KB" in text
    wait_until(
        lambda: f"emlio: serving on {daemon.endpoint}\n" in daemon.log.read_text(), "it says so"
    )
    assert "serving on" not in checked
    shard_path(shards, 0).write_bytes(b"not a shard at all")
    assert shard_path(shards, 0).name in emlio("serve", f"t={shards}", "--check", code=1).stderr


# --- signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_pull_reports_what_it_has(
    emlio_bin: str, shards: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with endless_pull(emlio_bin, tmp_path, shards) as process:
        process.send_signal(number)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code
    report = json.loads(output)
    assert report["records"] > 0
    assert report["error"]["code"] == "CANCELLED"
    assert read_dump(tmp_path / "endless")[-1][:2] == [
        report["epochs"][-1]["epoch"],
        report["epochs"][-1]["batches"] - 1,
    ]


def ready_file(daemon: Daemon) -> Path:
    return daemon.log.parent / "ready"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_idle_serve_stops_with_exit_code_0(
    serve: Serve, shards: Path, number: signal.Signals
) -> None:
    daemon = serve({"train": shards})
    daemon.process.send_signal(number)
    assert daemon.process.wait(DEADLINE_S) == 0
    assert not ready_file(daemon).exists()


def test_serve_waits_for_sessions_that_end_in_time(
    emlio_bin: str, serve: Serve, shards: Path, tmp_path: Path
) -> None:
    daemon = serve({"train": shards}, extra_args=["--drain-s", str(DEADLINE_S)])
    with endless_pull(emlio_bin, tmp_path, f"{daemon.endpoint}/train") as process:
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in daemon.log.read_text(), "draining")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
        assert daemon.process.wait(DEADLINE_S) == 0


def test_serve_that_cuts_sessions_off_says_so_to_both_sides(
    emlio_bin: str, serve: Serve, shards: Path, tmp_path: Path
) -> None:
    daemon = serve({"train": shards}, extra_args=["--drain-s", "0.2"])
    with endless_pull(emlio_bin, tmp_path, f"{daemon.endpoint}/train") as process:
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(DEADLINE_S) == 4
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert "cut off" in daemon.log.read_text()
    assert process.returncode in (1, 3)
    assert json.loads(output)["error"]["message"]


def test_second_signal_ends_draining(
    emlio_bin: str, serve: Serve, shards: Path, tmp_path: Path
) -> None:
    daemon = serve({"train": shards}, extra_args=["--drain-s", str(10 * DEADLINE_S)])
    with endless_pull(emlio_bin, tmp_path, f"{daemon.endpoint}/train"):
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in daemon.log.read_text(), "draining")
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(DEADLINE_S) == 4
