# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The regression check: ratios of a short run beside recorded bands with wide margins.

A machine that is busy with other things makes no false alarm: rows of which less than a tenth of
the processors was idle, or more than `FOREIGN_AT_MOST` of them went to others, do not count, and a
ratio of fewer than `LEAST_SAMPLES` pairs that count is not judged.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.processes import BenchmarkError
from benchmarks.report import Goal, Result, number
from benchmarks.wan import metrics
from benchmarks.wan.store import Store
from benchmarks.wan.tables import table

BANDS = Path(__file__).with_name("bands.json")
LEAST_SAMPLES = 3
FOREIGN_AT_MOST = 0.25


@dataclass(frozen=True)
class Verdict:
    """One ratio beside its band."""

    metric: str
    band: Goal
    result: Result | None
    state: Literal["inside", "OUTSIDE", "not judged"]
    reason: str = ""


def load_bands(path: Path = BANDS) -> dict[str, Goal]:
    """The recorded bands.

    Raises:
        BenchmarkError: the file has none.
    """
    try:
        bands = {
            metric: Goal(band.get("at_least"), band.get("at_most"))
            for metric, band in json.loads(path.read_text())["bands"].items()
        }
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise BenchmarkError(f"{path}: {error!r}") from error
    if not bands:
        raise BenchmarkError(f"{path} has no bands")
    return bands


def judge(store: Store, bands: Mapping[str, Goal]) -> list[Verdict]:
    """What the rows say of every band."""
    undisturbed = {
        key: row
        for key, row in store.rows().items()
        if row["foreign_share"] <= FOREIGN_AT_MOST and metrics.has_idle(row)
    }
    found = {result.metric: result for result in metrics.results(undisturbed)}
    return [_verdict(metric, band, found.get(metric), store) for metric, band in bands.items()]


def _verdict(metric: str, band: Goal, result: Result | None, store: Store) -> Verdict:
    if result is not None and result.n >= LEAST_SAMPLES:
        return Verdict(
            metric, band, result, "inside" if band.is_met_by(result.value) else "OUTSIDE"
        )
    if store.missing:
        reason = f"missing {', '.join(store.missing)}"
    else:
        n = 0 if result is None else result.n
        reason = f"the machine was too busy: {n} of {LEAST_SAMPLES} pairs count"
    return Verdict(metric, band, result, "not judged", reason)


def is_settled(verdicts: Sequence[Verdict]) -> bool:
    """Whether more rounds would tell nothing new."""
    return all(verdict.state == "inside" for verdict in verdicts)


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        result = verdict.result
        value = "" if result is None else number(result.value)
        n = 0 if result is None else result.n
        state = f"{verdict.state}: {verdict.reason}" if verdict.reason else verdict.state
        rows.append((f"`{verdict.metric}`", verdict.band, value, n, state))
    return "\n".join(table("ratio|band|median|n|-verdict", rows))
