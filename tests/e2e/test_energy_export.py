# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""`emlio energy export` and `emlio.energy_parquet`, of a store made by METRICS.md alone."""

import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest

from command_line import Emlio
from emlio.energy_parquet import export_parquet

TICKS = 3
FIRST_NS = 5_000_000_000_000
WALL_NS = 1_800_000_000_000_000_000


def unsigned(value: int) -> bytes:
    """LEB128, as METRICS.md section 9 has it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """Zigzag-coded."""
    return unsigned(value * 2 if value >= 0 else -value * 2 - 1)


def dense(values: list[int]) -> bytes:
    """A column that names every difference."""
    differences = [b - a for a, b in zip([0, *values], values, strict=False)]
    return unsigned(0) + b"".join(signed(difference) for difference in differences)


ZEROS = unsigned(1)


def packed() -> bytes:
    """Ticks of one domain that draws 10 W and of one that nobody can read."""
    data = unsigned(1) + unsigned(TICKS) + unsigned(2)
    data += dense([FIRST_NS + tick * 100_000_000 for tick in range(TICKS)])
    # Sparse: it changes once, at the first tick.
    data += unsigned(2) + unsigned(0) + signed(WALL_NS - FIRST_NS)
    moved, first, knot = 1, 0, 8
    data += ZEROS + dense([tick * 1_000_000 for tick in range(TICKS)]) + ZEROS * 7
    data += dense([knot + first, *[knot + moved] * (TICKS - 1)])
    return data + ZEROS * 9 + dense([3] * TICKS)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one run, made of the schema and the document's rules."""
    path = tmp_path / "energy.db"
    schema = Path(__file__).parents[2] / "src/emlio/energy/store_schema.cc"
    statements = schema.read_text().partition('R"(')[2].partition(')"')[0]
    database = sqlite3.connect(path)
    database.executescript(
        f"{statements} PRAGMA application_id = {0x454D4C45}; PRAGMA user_version = 1;"
    )

    def insert(table: str, **values: object) -> None:
        database.execute(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            list(values.values()),
        )

    insert(
        "run",
        id="20270115-ab",
        started_wall_ns=WALL_NS,
        command="[]",
        configuration="{}",
        labels="{}",
    )
    insert(
        "node",
        id=7,
        run_id="20270115-ab",
        name="n1",
        role="",
        boot_id="",
        facts="{}",
        interval_ns=100_000_000,
    )
    for number, (kind, cause) in enumerate([("package", ""), ("dram", "no right, no number")]):
        insert(
            "domain",
            node_id=7,
            number=number,
            id=f"{kind}-0",
            kind=kind,
            source="perf",
            quantity="energy",
            cause=cause,
            **dict.fromkeys(("socket", "range_units", "refresh_ns", "update_period_ns"), 0),
            **dict.fromkeys(("per_unit", "max_watts", "plausible_watts", "step_joules"), 1.0),
            **dict.fromkeys(("shared", "virtualised", "filtered"), 0),
            **dict.fromkeys(("device", "pci", "detail", "outside_total", "fix"), ""),
            die=-1,
            in_total=1,
            facts="{}",
        )
    insert(
        "samples",
        node_id=7,
        first_ns=FIRST_NS,
        last_ns=FIRST_NS + (TICKS - 1) * 100_000_000,
        ticks=TICKS,
        data=packed(),
    )
    for epoch in range(2):
        insert(
            "window",
            node_id=7,
            key=f"w{epoch}",
            name="read, twice",
            stage="R",
            epoch=epoch,
            begin_ns=FIRST_NS,
            end_ns=FIRST_NS + 200_000_000,
            begin_wall_ns=WALL_NS,
            allow_gaps=0,
            state="unavailable",
            domains='["package-0"]',
            missing='["dram-0"]',
            without="[]",
            cpu_seconds=1.5,
            labels="{}",
        )
    database.commit()
    database.close()
    return path


def exported(emlio: Emlio, *args: object) -> list[dict[str, str]]:
    """The rows that the executable writes."""
    return list(csv.DictReader(io.StringIO(emlio("energy", "export", *args).stdout)))


def test_samples_have_numbers_only_where_they_were_measured(emlio: Emlio, store: Path) -> None:
    rows = exported(emlio, "--store", store)
    assert len(rows) == 2 * TICKS
    package = [row for row in rows if row["domain"] == "package-0"]
    assert [row["energy_uj"] for row in package] == ["0", "1000000", "2000000"]
    assert [row["delta_j"] for row in package] == ["", "1.000000", "1.000000"]
    assert [row["state"] for row in package] == ["first", "moved", "moved"]
    assert package[2]["wall_ns"] == str(WALL_NS + 200_000_000)
    for row in rows:
        if row["domain"] == "dram-0":
            assert row["state"] == "unavailable"
            assert (row["energy_uj"], row["delta_j"], row["wraps"]) == ("", "", "")


def test_a_run_is_found_by_the_begin_of_its_id(emlio: Emlio, store: Path) -> None:
    rows = exported(emlio, "20270115", "--store", store, "--table", "windows")
    assert [row["epoch"] for row in rows] == ["0", "1"]
    assert rows[0]["name"] == "read, twice"
    assert (rows[0]["joules"], rows[0]["cpu_seconds"], rows[0]["missing"]) == ("", "1.5", "dram-0")
    done = emlio("energy", "export", "2026", "--store", store, code=1)
    assert "its runs are 20270115-ab" in done.stderr


def test_line_protocol_goes_to_a_file_with_a_report(
    emlio: Emlio, store: Path, tmp_path: Path
) -> None:
    target = tmp_path / "points.lp"
    done = emlio(
        *("energy", "export", "--store", store, "--format", "influx", "-o", target, "--json", "-")
    )
    report = json.loads(done.stdout)
    assert (report["run"], report["rows"]) == ("20270115-ab", 2 * TICKS)
    lines = target.read_text().splitlines()
    assert lines[2].startswith(
        "emlio_energy,domain=package-0,in_total=yes,kind=package,node=n1,run="
    )
    assert lines[1].endswith(f'source=perf state="unavailable" {WALL_NS // 1000}')


def test_parquet_says_what_to_install_and_other_files_are_no_stores(
    emlio: Emlio, tmp_path: Path
) -> None:
    done = emlio("energy", "export", "--store", "x", "--format", "parquet", code=2)
    assert "pip install pyarrow" in done.stderr
    other = tmp_path / "other.db"
    other.write_text("no database" * 100)
    done = emlio("energy", "export", "--store", other, code=2)
    assert "no store of energy runs" in done.stderr
    done = emlio("energy", "export", "--store", tmp_path / "none.db", code=1)
    assert "none.db" in done.stderr


def test_parquet_has_types_and_nulls(emlio_bin: str, store: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "samples.parquet"
    assert export_parquet(store, target, emlio=emlio_bin) == 2 * TICKS
    rows = parquet.read_table(target).to_pylist()
    assert [row["energy_uj"] for row in rows if row["domain"] == "package-0"] == [
        0,
        10**6,
        2 * 10**6,
    ]
    assert [row["energy_uj"] for row in rows if row["domain"] == "dram-0"] == [None] * TICKS
    assert rows[0]["in_total"] is True
    assert rows[2]["delta_j"] == 1.0
    assert export_parquet(store, tmp_path / "w", "2027", table="windows", emlio=emlio_bin) == 2
    windows = parquet.read_table(tmp_path / "w").to_pylist()
    assert [(row["epoch"], row["joules"], row["rank"]) for row in windows] == [
        (0, None, None),
        (1, None, None),
    ]
    assert export_parquet(store, tmp_path / "e", table="energies", emlio=emlio_bin) == 0


def test_parquet_that_fails_leaves_nothing_behind(emlio_bin: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "out" / "samples.parquet"
    target.parent.mkdir()
    with pytest.raises(RuntimeError, match=r"none\.db"):
        export_parquet(tmp_path / "none.db", target, emlio=emlio_bin)
    assert list(target.parent.iterdir()) == []
