# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The file of results: every row as it comes, and what is known from rows that have come."""

import json
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.processes import BenchmarkError
from benchmarks.report import Result, write_json
from benchmarks.wan.settings import LOADER, PULL, Cell, Line

Row = dict[str, Any]
Key = tuple[Cell, int]
# Connections that are no data streams.
EMLIO_CONTROL_CONNECTIONS = 1


class Store:
    """Rows by cell and round, in memory, and in a file if there is one.

    The file is that of all benchmarks (environment, results), with `runs`, the rows, beside; it is
    written after every row, so that an interruption loses one run.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.environment: dict[str, Any] = {}
        self.checks: dict[str, Any] = {}
        self.missing: dict[str, str] = {}
        self.commands: list[str] = []
        self._rows: dict[Key, Row] = {}

    @staticmethod
    def load(path: Path) -> "Store":
        """What a file holds; it is continued."""
        store = Store(path)
        try:
            report = json.loads(path.read_text())
            store.environment = report["environment"]
            store.checks = report.get("self_checks", {})
            store.missing = report.get("missing", {})
            store.commands = report.get("commands", [])
            for row in report["runs"]:
                store._rows[Cell.from_json(row["cell"]), row["round"]] = row
        except (ValueError, KeyError, TypeError) as error:
            raise BenchmarkError(f"{path} has no results of benchmarks/wan: {error!r}") from error
        return store

    def add(self, cell: Cell, number: int, row: Mapping[str, Any]) -> None:
        self._rows[cell, number] = {"cell": cell.to_json(), "round": number, **row}
        self.write()

    def has(self, cell: Cell, number: int) -> bool:
        """Whether a run is done; one that failed is not."""
        row = self._rows.get((cell, number))
        return row is not None and "failure" not in row

    def forget(self, peers: Iterable[str]) -> None:
        """Drops the rows of peers, so that they are run again."""
        chosen = set(peers)
        self._rows = {key: row for key, row in self._rows.items() if key[0].peer not in chosen}

    def rows(self) -> dict[Key, Row]:
        """Those that did not fail."""
        return {key: row for key, row in self._rows.items() if "failure" not in row}

    def failures(self) -> dict[Key, str]:
        return {key: row["failure"] for key, row in self._rows.items() if "failure" in row}

    def most_images_per_s(self, cell: Cell) -> float | None:
        """How quick a peer was with the same workload, on this line or on shorter, wider ones."""
        rates = [
            row["images_per_s"]
            for (other, _), row in self.rows().items()
            if replace(other, line=cell.line) == cell
            and other.line.rtt_ms <= cell.line.rtt_ms
            and (other.line.rate_mbit or math.inf) >= (cell.line.rate_mbit or math.inf)
            and row.get("images_per_s")
        ]
        return max(rates, default=None)

    def wall_s(self, cell: Cell) -> float | None:
        """How long runs of a cell took with all that is around them."""
        took = [row["wall_s"] for (other, _), row in self.rows().items() if other == cell]
        return statistics.median(took) if took else None

    def streams_of_emlio(self, cell: Cell) -> int | None:
        """The most data streams that EMLIO was seen to have on the line, whatever it read."""
        seen = [
            (other.workload == cell.workload, row["connections"] - EMLIO_CONTROL_CONNECTIONS)
            for (other, _), row in self.rows().items()
            if other.line == cell.line and other.peer in (LOADER, PULL)
        ]
        # What it had with the same workload says more than what it had with others.
        return max(1, max(seen)[1]) if seen else None

    def is_checked(self, line: Line) -> bool:
        return line.name in self.checks

    def add_check(self, line: Line, verdict: dict[str, Any]) -> None:
        self.checks[line.name] = verdict
        self.write()

    def write(self, results: Iterable[Result] = ()) -> None:
        if self.path is not None:
            write_json(
                self.path,
                self.environment,
                results,
                runs=list(self._rows.values()),
                missing=self.missing,
                commands=self.commands,
                self_checks=self.checks,
            )
