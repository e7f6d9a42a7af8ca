# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be run, in which order, about how long it takes, and what need not be run again.

Everything is run once before anything is run twice, so that what is interrupted has figures for
all. A round takes the blocks in the order in which their cells are named: the important ones first.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.peers.peer import BATCH_SIZE
from benchmarks.wan import metrics
from benchmarks.wan.settings import (
    AS_EMLIO,
    FILE_PEERS,
    IPERF3,
    LONG_EPOCH_BYTES,
    NO_PEERS,
    PAPER,
    Cell,
    Line,
    blocks,
    long_epochs,
    turns,
)
from benchmarks.wan.store import Store

SET_BYTES = 400e6  # the set of images that is read several times
# Of peers that are cut, so many images are got ready as would take so much longer than the run.
SPARE = 3.0
# Loaders of a file a sample: workers, and round trips a file, usual and at least.
FILE_WORKERS, FILE_RTTS, FILE_LEAST_RTTS = 16, 2.6, 2.0

# After its first round a cell is not run again if others are so much better that it can neither be
# the quickest nor the leanest of them: "the best" is all that the goals ask for.
BETTER_LOADER = 1.5
BETTER_SETTINGS = 1.15
# Loaders that goals name are run in every round where they do.
NAMED = ("torch-nfs", "dali")

# For estimates, where nothing was run yet: what a run takes beside reading, and how quick it is.
START_S: Mapping[str, float] = {
    "webdataset": 4,
    "tfdata": 8,
    "dali": 4,
    "grain": 5,
    "litdata": 6,
    "mosaic": 9,
    "spdl": 2,
    "torch-nfs": 6,
    "torch-sshfs": 6,
}
OWN_START_S = 2.0
OWN_MB_PER_S, OTHERS_MB_PER_S, DECODING_MB_PER_S = 500.0, 150.0, 50.0
LINE_S = 0.5  # a laboratory


@dataclass(frozen=True)
class Amount:
    """How much a run reads: a set of so many images, so often."""

    count: int
    passes: int

    @property
    def images(self) -> int:
        return self.count * self.passes


def amount_for(
    image_bytes: float, least_bytes: float, bound_s: float | None, most_images_per_s: float | None
) -> Amount:
    """How much a run may read, unless its time is over before.

    Args:
        image_bytes: Mean size of the images.
        least_bytes: What a run should move.
        bound_s: How long it may last.
        most_images_per_s: What the peer can do at most; None when nothing is known.
    """
    count = max(1, round(SET_BYTES / image_bytes))
    wanted = least_bytes / image_bytes
    if bound_s is not None and most_images_per_s is not None:
        # Some peers need files, links or folders for every pass.
        wanted = min(wanted, most_images_per_s * bound_s)
    return Amount(count, max(1, math.ceil(0.98 * wanted / count)))


@dataclass
class Plan:
    """What to run, and how."""

    cells: Sequence[Cell]
    rounds: int = 5
    least_gb: float = 2.0
    amount: Amount | None = None  # of every run, instead of what least_gb says
    queue_bytes: int | None = None
    congestion: str | None = None
    check_links: bool = False
    for_s: float = math.inf  # begin nothing after so long
    run_s: float | None = None  # a run ends so long after its first batch
    bounds_all: bool = True  # else only the loaders of others
    best_only: bool = False  # what is beaten in the first round is not run again
    say: Callable[[str], None] = print
    began: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.began > self.for_s

    def bound_s(self, cell: Cell) -> float | None:
        """How long after its first batch a run of a cell ends at the latest."""
        is_bounded = self.bounds_all or cell.peer not in NO_PEERS
        return self.run_s if is_bounded and not cell.workload.long_epochs else None

    def amount_of(self, cell: Cell, store: Store) -> Amount:
        """How much a run of a cell reads."""
        load, bound_s = cell.workload, self.bound_s(cell)
        if self.amount is not None:
            return self.amount
        if load.long_epochs:
            return Amount(round(LONG_EPOCH_BYTES / load.image_bytes), long_epochs(cell.line))
        most: float | None = None
        if cell.peer not in NO_PEERS:  # the loaders of others are those that get passes ready
            known = store.most_images_per_s(cell)
            most = None if known is None else SPARE * known
        if cell.peer in FILE_PEERS:
            most = min(most or math.inf, file_images_per_s(cell.line, FILE_LEAST_RTTS))
        return amount_for(load.image_bytes, self.least_gb * 1e9, bound_s, most)

    def left(self, store: Store, number: int) -> Iterator[list[Cell]]:
        """What is left of a round, line by line."""
        for block in blocks(self.cells):
            for cells in turns(block, number):
                if missing := [cell for cell in cells if self._is_left(store, cell, number)]:
                    yield missing

    def _is_left(self, store: Store, cell: Cell, number: int) -> bool:
        if store.has(cell, number):
            return False
        return not (self.best_only and number > 0 and is_beaten(cell, store))


def file_images_per_s(line: Line, round_trips: float) -> float:
    """What loaders of a file a sample read that wait so many round trips for each."""
    return FILE_WORKERS / (round_trips * line.rtt_ms / 1e3)


def is_beaten(cell: Cell, store: Store) -> bool:
    """Whether others, by the rounds that there are, do so much better that a cell says no more."""
    here = metrics.Table(
        {
            key: row
            for key, row in store.rows().items()
            if (key[0].line, key[0].workload) == (cell.line, cell.workload)
        }
    )
    medians = {
        other: (_median(rounds, metrics.rate), _median(rounds, metrics.cpu))
        for other, rounds in here.cells()
    }
    if cell not in medians:
        return False
    rate, cost = medians[cell]
    if cell.peer in (IPERF3, PAPER):
        rivals = [r for other, (r, _) in medians.items() if other.peer == cell.peer]
        is_judged = ("streams", AS_EMLIO) not in cell.settings
        return is_judged and max(rivals) > BETTER_SETTINGS * rate
    if cell.peer in NO_PEERS:
        return False
    line = cell.line
    if cell.peer in NAMED and (line.rtt_ms, line.rate_mbit) == (30, 5000):
        return False
    loaders = [values for other, values in medians.items() if other.peer not in NO_PEERS]
    quickest, leanest = max(r for r, _ in loaders), min(c for _, c in loaders)
    return quickest > BETTER_LOADER * rate and cost > BETTER_LOADER * leanest


def _median(rounds: metrics.Rounds, value: metrics.Value) -> float:
    return statistics.median(value(row) or 0.0 for row in rounds.values())


def estimate_s(cell: Cell, plan: Plan, store: Store) -> float:
    """How long a run of a cell takes with all that is around it: as before, or by a rough guess."""
    if (known := store.wall_s(cell)) is not None:
        return known
    amount, load, line = plan.amount_of(cell, store), cell.workload, cell.line
    rate = OWN_MB_PER_S if cell.peer in NO_PEERS else OTHERS_MB_PER_S
    if load.decode:
        rate = DECODING_MB_PER_S
    if line.rate_mbit:
        rate = min(rate, 0.94 * line.rate_mbit / 8)
    first_s = 12 * line.rtt_ms / 1e3
    if cell.peer in FILE_PEERS:
        files = file_images_per_s(line, FILE_RTTS)
        rate = min(rate, files * load.image_bytes / 1e6)
        first_s = FILE_WORKERS * BATCH_SIZE / files
    reading_s = amount.images * load.image_bytes / 1e6 / rate
    bound_s = plan.bound_s(cell)
    if bound_s is not None:
        reading_s = min(reading_s, bound_s)
    return START_S.get(cell.peer, OWN_START_S) + first_s + reading_s


def plan_table(plan: Plan, store: Store) -> list[str]:
    """What is left, block by block, with about how many minutes it takes."""
    from benchmarks.wan.tables import place_title, table

    rows: list[Sequence[object]] = []
    left = {n: [c for cells in plan.left(store, n) for c in cells] for n in range(plan.rounds)}
    lines = {n: len(list(plan.left(store, n))) for n in range(plan.rounds)}
    for block in blocks(plan.cells):
        members = set(block)
        runs = [cell for cells in left.values() for cell in cells if cell in members]
        if not runs:
            continue
        minutes = sum(estimate_s(cell, plan, store) for cell in runs) / 60
        first = block[0]
        title = place_title(first.line, first.workload).partition(", ")[2]
        rtts = ", ".join(f"{r:g}" for r in sorted({cell.line.rtt_ms for cell in block}))
        rows.append((title, rtts, len(block), len(runs), f"{minutes:.1f}"))
    made = table("-block|-round trips ms|cells|runs left|minutes", rows)
    for number, cells in left.items():
        if cells:
            seconds = sum(estimate_s(cell, plan, store) for cell in cells) + LINE_S * lines[number]
            made.append(f"round {number + 1}: {len(cells)} runs, {seconds / 60:.0f} minutes")
    total = sum(estimate_s(cell, plan, store) for cells in left.values() for cell in cells)
    total += LINE_S * sum(lines.values())
    # What is beaten in the first round is not known before.
    about = "at most" if plan.best_only and left[0] else "about"
    made.append(f"{sum(map(len, left.values()))} runs are left, {about} {total / 60:.0f} minutes")
    return made
