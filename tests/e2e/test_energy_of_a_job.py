# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A real job on two hosts whose power is known: its joules as they are recorded and reported."""

import json
import sys
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from command_line import run_emlio
from daemon_process import start_daemon
from energy_host import TWO_SOCKETS, TWO_SOCKETS_WATTS, two_sockets

JOB = Path(__file__).with_name("training_job.py")
EPOCHS = 2
STEPS = 30  # an epoch
STEP_S = 0.08
RECORD_BYTES = 100_000
CLOSE = 0.01


@dataclass
class Measured:
    """What was recorded of the job, and the report of it."""

    record: dict[str, Any]
    report: dict[str, Any]
    text: str
    page: str
    late_s: float  # how long a counter stood still: its truth is not known better

    def expected(self, watts: float, seconds: float) -> Any:
        return pytest.approx(watts * seconds, rel=CLOSE, abs=watts * self.late_s)


@pytest.fixture(scope="module")
def measured(emlio_bin: str, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("job")

    def emlio(*args: object) -> str:
        return run_emlio(emlio_bin, folder, *args).stdout

    shards, store = folder / "shards", folder / "runs.emlio"
    record, report, page = (folder / name for name in ("record.json", "report.json", "page.html"))
    emlio(
        *("convert", "synthetic", shards, "--records", 10 * STEPS),
        *("--record-bytes", RECORD_BYTES, "--shards", 3),
    )
    with (
        two_sockets(folder / "compute", "compute") as compute,
        two_sockets(folder / "storage", "storage") as storage,
    ):
        daemon = start_daemon(
            emlio_bin, folder, {"train": shards}, ["--energy-root", str(storage.root)]
        )
        try:
            begin = time.monotonic()
            # Nobody tells it of the storage node: the loader finds it.
            emlio(
                *("energy", "record", "--root", compute.root, "--store", store, "--json", record),
                *("--", sys.executable, JOB, f"{daemon.endpoint}/train", EPOCHS, STEP_S),
            )
            end = time.monotonic()
        finally:
            daemon.stop()
        late_s = max(host.late_s(begin, end) for host in (compute, storage))
    text = emlio("energy", "report", "--store", store)
    emlio("energy", "report", "--store", store, "--json", report, "--html", page)
    return Measured(
        json.loads(record.read_text()),
        json.loads(report.read_text()),
        text,
        page.read_text(),
        late_s,
    )


class Elements(HTMLParser):
    """Checks that elements are closed in order, and that nothing is asked of other places."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        assert not {"src", "href", "srcset", "action", "data"} & {name for name, _ in attrs}
        for _, value in attrs:
            assert "url(" not in (value or "").replace("url(#", "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_nobody_for_anything(measured: Measured) -> None:
    elements = Elements()
    elements.feed(measured.page)
    elements.close()
    assert elements.open == []
    assert {"svg", "table", "style"} <= elements.seen
    assert not {"script", "link", "img", "iframe", "object"} & elements.seen
    assert "http" not in measured.page
    for shown in ("epoch 0", "epoch 1", "(storage)", "package"):
        assert shown in measured.page


def test_each_node_and_domain_has_its_known_joules(measured: Measured) -> None:
    record = measured.record
    seconds = record["seconds"]
    assert seconds > EPOCHS * STEPS * STEP_S
    (storage,) = record["nodes"]
    assert (storage["role"], storage["state"]) == ("storage", "whole")
    for node in (record, storage):
        assert node["total"]["state"] == "measured"
        assert node["total"]["joules"] == measured.expected(TWO_SOCKETS_WATTS, node["seconds"])
        joules = {one["id"]: one["joules"] for one in node["domains"] if one["in_total"]}
        assert joules.keys() == TWO_SOCKETS.keys()
        for domain, watts in TWO_SOCKETS.items():
            assert joules[domain] == measured.expected(watts, node["seconds"])
    # The storage node is measured from the begin on, though it was found later.
    assert storage["seconds"] == pytest.approx(seconds, abs=0.1)
    total = record["run"]["total"]
    assert total["state"] == "measured"
    assert total["joules"] == measured.expected(2 * TWO_SOCKETS_WATTS, seconds)


def test_each_epoch_has_its_known_joules_on_both_nodes(measured: Measured) -> None:
    (storage,) = measured.record["nodes"]
    used = [one for one in measured.record["windows"] if one["name"] == "epoch"]
    sent = [one for one in storage["windows"] if one["name"] == "serve"]
    for windows in (used, sent):
        assert [one["epoch"] for one in windows] == list(range(EPOCHS))
        for window in windows:
            # Sent a little ahead of what is used, and no more than that.
            assert window["seconds"] > 0.8 * STEPS * STEP_S
            assert window["total"]["joules"] == measured.expected(
                TWO_SOCKETS_WATTS, window["seconds"]
            )
            for domain in window["domains"]:
                if domain["in_total"]:
                    watts = TWO_SOCKETS[domain["id"]]
                    assert domain["joules"] == measured.expected(watts, window["seconds"])
    assert [one["records"] for one in used] == [10 * STEPS] * EPOCHS
    assert [one["bytes"] for one in sent] == [10 * STEPS * RECORD_BYTES] * EPOCHS


def test_the_report_of_the_stored_run_has_the_same_joules(measured: Measured) -> None:
    record, report = measured.record, measured.report
    total = report["these"]["energy"]["total_joules"]["mean"]
    assert total == pytest.approx(record["run"]["total"]["joules"])
    assert total == measured.expected(2 * TWO_SOCKETS_WATTS, record["seconds"])
    assert [one["what"] for one in report["nodes"]] == ["compute", "storage"]
    for node in report["nodes"]:
        assert node["total_joules"]["mean"] == measured.expected(
            TWO_SOCKETS_WATTS, record["seconds"]
        )
    domains = [one for one in report["domains"] if one["in_total"]]
    assert len(domains) == 2 * len(TWO_SOCKETS)
    for one in domains:
        watts = TWO_SOCKETS[one["name"].rpartition("/")[2]]
        assert one["total_joules"]["mean"] == measured.expected(watts, record["seconds"])

    epochs = report["epochs"]
    assert [(one["epoch"], one["window"]) for one in epochs] == [
        *((0, "epoch"), (0, "serve")),
        *((1, "epoch"), (1, "serve")),
    ]
    for epoch in epochs:
        length = epoch["seconds"]["mean"]
        assert epoch["energy"]["total_joules"]["mean"] == measured.expected(
            TWO_SOCKETS_WATTS, length
        )
        in_total = [one for one in epoch["domains"] if one["in_total"]]
        assert len(in_total) == len(TWO_SOCKETS)
        for one in in_total:
            watts = TWO_SOCKETS[one["name"].rpartition("/")[2]]
            assert one["total_joules"]["mean"] == measured.expected(watts, length)
    per_epoch = {one["unit"]: one for one in report["these"]["per_unit"]}["epoch"]
    assert per_epoch["total_joules"]["value"] == pytest.approx(total / EPOCHS)
    assert "Epochs" in measured.text
