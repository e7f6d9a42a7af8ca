# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What `emlio energy record` leaves in its store, and what reports make of it."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Emlio
from energy_host import TWO_SOCKETS_WATTS, EnergyHost, two_sockets

CLOSE = 0.15  # the host's driver is a thread on a busy machine


@pytest.fixture
def host(tmp_path: Path) -> Iterator[EnergyHost]:
    """Two sockets with memory."""
    with two_sockets(tmp_path / "host") as made:
        yield made


def energy(emlio: Emlio, tmp_path: Path, *args: object, code: int = 0) -> dict[str, Any]:
    """What a subcommand wrote as JSON."""
    report = tmp_path / "report.json"
    emlio("energy", args[0], "--json", report, *args[1:], code=code)
    result: dict[str, Any] = json.loads(report.read_text())
    return result


def rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        return database.execute(query).fetchall()


def test_runs_are_kept_among_the_users_data_and_the_latest_is_reported(
    emlio: Emlio, tmp_path: Path, host: EnergyHost
) -> None:
    # As command_line.environment has it.
    store = tmp_path / "data/emlio/energy.db"
    assert str(store) in emlio("energy", "report", code=1).stderr
    first = energy(emlio, tmp_path, "record", "--root", host.root, "--", "sleep", "0.5")
    done = emlio("energy", "record", "--root", host.root, "--", "sleep", "1")
    assert f"is in {store}" in done.stderr
    runs = rows(store, "SELECT id, exit_status FROM run ORDER BY started_wall_ns")
    assert runs[0] == (first["run"]["id"], 0)
    assert first["store"] == str(store)
    assert len(runs) == 2
    # The joules of the report are those of the ticks and windows in the store.
    report = energy(emlio, tmp_path, "report")
    assert [run["id"] for run in report["these"]["runs"]] == [runs[1][0]]
    (run,) = report["these"]["runs"]
    assert run["total"]["joules"] == pytest.approx(TWO_SOCKETS_WATTS * run["seconds"], rel=CLOSE)
    report = energy(emlio, tmp_path, "report", first["run"]["id"])
    (run,) = report["these"]["runs"]
    assert run["total"]["joules"] == pytest.approx(first["total"]["joules"], rel=1e-6)
    assert emlio("energy", "export", "--table", "windows").stdout.count("\n") == 2


def test_a_run_goes_where_it_is_told_to_or_nowhere(
    emlio: Emlio, tmp_path: Path, host: EnergyHost
) -> None:
    default = tmp_path / "data/emlio/energy.db"
    done = emlio("energy", "record", "--no-store", "--root", host.root, "--", "true")
    assert "is in" not in done.stderr
    store = tmp_path / "a/b/runs.db"
    result = energy(
        emlio, tmp_path, "record", "--store", store, "--root", host.root, "--", "sleep", "0.5"
    )
    assert result["store"] == str(store)
    assert rows(store, "SELECT id FROM run") == [(result["run"]["id"],)]
    assert not default.exists()


def test_a_store_that_cannot_be_written_stops_no_run(
    emlio: Emlio, tmp_path: Path, host: EnergyHost
) -> None:
    other = tmp_path / "other.db"
    other.write_text("something else\n")
    done = emlio("energy", "record", "--store", other, "--root", host.root, "--", "echo", "ran")
    assert done.stdout == "ran\n"
    assert "will not be in the store" in done.stderr
    assert other.read_text() == "something else\n"
