# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of rows, and what they should be.

A ratio is made of two rows of one round; the figure is the median of these. A row that was
disturbed does not count: where any pair counts, the others are left out, and where none does, the
figure is of all of them and is not judged. A row whose own programs kept all processors busy does
count, and says so (docs/decisions/0020).
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.report import Goal, Result, summarize
from benchmarks.wan.settings import (
    AS_EMLIO,
    IPERF3,
    LOADER,
    LONG_EPOCHS,
    NGINX,
    NO_PEERS,
    PAPER,
    PULL,
    RAW_TCP,
    USUAL,
    Cell,
    Line,
    Settings,
    Workload,
)
from benchmarks.wan.store import Key, Row

LEAST_IDLE = 0.10
# Where nothing was idle, no more than this may have gone to others, ...
FOREIGN_AT_MOST = 0.10
# ... and packets may not have come later than that, on average.
LATE_AT_MOST_US, LATE_AT_MOST_OF_RTT = 500.0, 0.01

GOALS = {
    "emlio_over_iperf3_30ms_5g": Goal(at_least=0.98),
    "emlio_over_iperf3_30ms_1g": Goal(at_least=0.98),
    "emlio_over_iperf3_100ms_5g": Goal(at_least=0.95),
    "emlio_over_iperf3_100ms_1g": Goal(at_least=0.98),
    "epoch_30ms_over_0ms_5g": Goal(at_most=1.02),
    "epoch_30ms_over_0ms_1g": Goal(at_most=1.02),
    "epoch_100ms_over_0ms_1g": Goal(at_most=1.02),
    "first_epoch_30ms_over_0ms_5g": Goal(at_most=1.06),
    "emlio_over_best_peer_30ms_5g": Goal(at_least=1.65),
    "emlio_over_best_peer_100ms_5g": Goal(at_least=3),
    "emlio_over_best_peer_30ms": Goal(at_least=4),
    "emlio_over_paper_python_0ms": Goal(at_least=2),
    "emlio_over_paper_python_30ms": Goal(at_least=2.5),
    "emlio_over_torch_nfs_30ms_5g": Goal(at_least=25),
    "emlio_over_dali_nfs_30ms_5g": Goal(at_least=3),
    "cpu_over_raw_tcp": Goal(at_most=1.15),
    "cpu_over_paper_python": Goal(at_most=0.4),
    "cpu_over_best_peer": Goal(at_most=0.25),
    "server_cpu_over_nginx": Goal(at_most=1.5),
    "first_batch_extra_rtts": Goal(at_most=1.5),
    "emlio_over_iperf3_loss": Goal(at_least=0.9),
    "emlio_over_iperf3_2mb": Goal(at_least=0.98),
    "emlio_over_iperf3_10kb": Goal(at_least=0.95),
}

PEER_NAMES = {"dali": "dali_nfs", "grain": "grain_nfs", "spdl": "spdl_http"}
NODES = ("storage", "compute")

Rounds = dict[int, Row]
Value = Callable[[Row], float | None]
Series = tuple[Cell, Rounds]


def images_per_s(row: Row) -> float | None:
    rate: float | None = row.get("images_per_s")
    return rate


def mb_per_s(row: Row) -> float | None:
    return float(row["mb_per_s"])


def steady(row: Row) -> float | None:
    rate: float | None = row["steady_wire_mb_per_s"]
    return rate


def rate(row: Row) -> float | None:
    """What a row is judged by as the quickest: images, or where there are none, bytes."""
    return images_per_s(row) or mb_per_s(row)


def cpu(row: Row) -> float | None:
    """Seconds a GB, both ends."""
    return sum(float(row[node]["cpu_s_per_gb"]) for node in NODES)


def storage_cpu(row: Row) -> float | None:
    return float(row["storage"]["cpu_s_per_gb"])


def compute_cpu(row: Row) -> float | None:
    return float(row["compute"]["cpu_s_per_gb"])


def first_batch_ms(row: Row) -> float | None:
    seconds = row["first_batch_s"]
    return None if seconds is None else 1e3 * seconds


def first_epoch(row: Row) -> float | None:
    epochs = row["epoch_seconds"]
    return float(epochs[0]) if epochs else None


def later_epochs(row: Row) -> float | None:
    """Mean of all but the first."""
    epochs = row["epoch_seconds"]
    return statistics.mean(epochs[1:]) if epochs and len(epochs) > 1 else None


def memory_mib(row: Row) -> float | None:
    """The most that both nodes' processes held; None where either was not seen."""
    peaks = [row[node]["peak_memory_bytes"] for node in NODES]
    return None if None in peaks else sum(peaks) / 2**20


def has_idle(row: Row) -> bool:
    """Whether enough of the machine was idle."""
    return bool(row["idle_share"] >= LEAST_IDLE)


def is_cpu_bound(row: Row) -> bool:
    """Whether the programs that were measured had all processors busy."""
    return not has_idle(row) and counts(row)


def counts(row: Row) -> bool:
    """Whether nothing but the programs that were measured, and their line, was felt."""
    late_us = LATE_AT_MOST_US + 1e3 * LATE_AT_MOST_OF_RTT * float(row["cell"]["rtt_ms"])
    undisturbed = row["foreign_share"] <= FOREIGN_AT_MOST and row["emulator_late_us"] <= late_us
    return has_idle(row) or bool(undisturbed)


class Table:
    """Rows, by what they are of."""

    def __init__(self, rows: Mapping[Key, Row]) -> None:
        self._series: dict[tuple[Line, Workload, str], dict[Settings, Rounds]] = {}
        for (cell, number), row in rows.items():
            place = (cell.line, cell.workload, cell.peer)
            rounds = self._series.setdefault(place, {}).setdefault(cell.settings, {})
            rounds[number] = row

    def places(self) -> list[tuple[Line, Workload]]:
        """Lines and workloads that have rows; long epochs are of the usual workload."""
        found = dict.fromkeys(
            (line, USUAL if load == LONG_EPOCHS else load) for line, load, _ in self._series
        )
        return sorted(found, key=lambda place: _order(*place))

    def cells(self) -> Iterator[Series]:
        for (line, load, peer), variants in self._series.items():
            for settings, rounds in variants.items():
                yield Cell(line, load, peer, settings), rounds

    def peers(self, line: Line, load: Workload) -> list[str]:
        return [peer for at, what, peer in self._series if (at, what) == (line, load)]

    def best(
        self, line: Line, load: Workload, peers: Iterable[str], value: Value, least: bool = False
    ) -> Series | None:
        """The peer and settings with the largest median, or the smallest."""
        found: list[tuple[float, Series]] = []
        for peer in peers:
            for settings, rounds in self._series.get((line, load, peer), {}).items():
                values = [v for row in rounds.values() if (v := value(row)) is not None]
                if values:
                    series = Cell(line, load, peer, settings), rounds
                    found.append((statistics.median(values), series))
        if not found:
            return None
        pick = min if least else max
        return pick(found, key=lambda entry: entry[0])[1]

    def with_settings(
        self, line: Line, load: Workload, peer: str, settings: Settings
    ) -> Series | None:
        rounds = self._series.get((line, load, peer), {}).get(settings)
        return (Cell(line, load, peer, settings), rounds) if rounds else None

    def emlio(self, line: Line, load: Workload, value: Value) -> Series | None:
        """EMLIO as a training script has it; else its runs of long epochs, else `emlio pull`."""
        for what, peer in ((load, LOADER), (LONG_EPOCHS, LOADER), (load, PULL)):
            if what == load or load == USUAL:
                found = self.best(line, what, [peer], value)
                if found is not None:
                    return found
        return None


def _order(line: Line, load: Workload) -> tuple[Any, ...]:
    """The usual before the rest; judged rates before the unlimited; then by distance."""
    unusual = (line.tcp != "stock", line.loss_percent, load.decode, load != USUAL, load.image_bytes)
    return (*unusual, line.rate_mbit == 0, -line.rate_mbit, line.rtt_ms)


def place_name(line: Line, load: Workload) -> str:
    """What the names of metrics end in; loss and other sizes are at 30 ms and 5 Gbit/s."""
    usual = not load.decode and line.tcp == "stock"
    special = line.loss_percent or load != USUAL
    if usual and special and (line.rtt_ms, line.rate_mbit) == (30.0, 5000.0):
        return line.more_name + load.name
    return line.name + load.name


def short_place_name(line: Line, load: Workload) -> str:
    """The same for what is compared at 30 ms: 5 Gbit/s is understood."""
    if line.rtt_ms == 30.0 and line.rate_mbit:
        rate = "" if line.rate_mbit == 5000.0 else line.rate_name
        return rate + line.more_name + load.name
    return line.name + load.name


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs


def _facts(cell: Cell, rounds: Rounds) -> dict[str, Any]:
    row = next(iter(rounds.values()))
    return {
        "what": cell.label,
        "settings": row["settings"],
        "connections": max(each["connections"] for each in rounds.values()),
        "images": row["images"],
        "bytes": row["bytes"],
        "passes": row["passes"],
        "ended_by": sorted({each["ended_by"] for each in rounds.values()}),
        "bound_s": row["bound_s"],
        "least_idle_share": min(each["idle_share"] for each in rounds.values()),
        "most_foreign_share": max(each["foreign_share"] for each in rounds.values()),
        "cpu_bound": any(is_cpu_bound(each) for each in rounds.values()),
    }


def compare(
    metric: str,
    ours: Series | None,
    theirs: Series | None,
    value: Value,
    unit: str = "ratio",
    combine: Callable[[float, float], float] = _ratio,
) -> Iterator[Result]:
    """The figure of two series, where both have rows of the same rounds."""
    if ours is None or theirs is None:
        return
    samples: dict[int, float] = {}
    counted = []
    for number, row in ours[1].items():
        other = theirs[1].get(number)
        if other is None:
            continue
        a, b = value(row), value(other)
        if a is not None and b:
            samples[number] = combine(a, b)
            if counts(row) and counts(other):
                counted.append(number)
    if not samples:
        return
    used = [samples[number] for number in counted] or list(samples.values())
    line, load = ours[0].line, ours[0].workload
    yield summarize(
        metric,
        used,
        unit,
        judged=bool(counted),
        left_out=len(samples) - len(used),
        rtt_ms=line.rtt_ms,
        rate_mbit=line.rate_mbit,
        loss_percent=line.loss_percent,
        tcp=line.tcp,
        image_bytes=load.image_bytes,
        decode=load.decode,
        link=next(iter(ours[1].values()))["link"],
        ours=_facts(*ours),
        theirs=_facts(*theirs),
    )


def comparisons(table: Table) -> Iterator[Result]:
    """Everything that compares EMLIO with others, or with itself at another distance."""
    places = table.places()
    for line, load in places:
        yield from _rates(table, line, load)
    for line, load in places:
        yield from _epochs(table, line, load)
    for line, load in places:
        yield from _costs(table, line, load)


def _rates(table: Table, line: Line, load: Workload) -> Iterator[Result]:
    where = place_name(line, load)
    as_many = (("streams", AS_EMLIO),)
    iperf3 = table.with_settings(line, load, IPERF3, as_many) if line.loss_percent else None
    iperf3 = iperf3 or table.best(line, load, [IPERF3], steady)
    ours = table.emlio(line, load, steady)
    yield from compare(f"emlio_over_iperf3{where}", ours, iperf3, steady)
    ours = table.emlio(line, load, images_per_s)
    paper = table.best(line, load, [PAPER], images_per_s)
    yield from compare(f"emlio_over_paper_python{where}", ours, paper, images_per_s)
    others = [peer for peer in table.peers(line, load) if peer not in NO_PEERS]
    best = table.best(line, load, others, images_per_s)
    yield from compare(f"emlio_over_best_peer{where}", ours, best, images_per_s)
    for peer in others:
        name = PEER_NAMES.get(peer, peer.replace("-", "_"))
        theirs = table.best(line, load, [peer], images_per_s)
        yield from compare(f"emlio_over_{name}{where}", ours, theirs, images_per_s)


def _epochs(table: Table, line: Line, load: Workload) -> Iterator[Result]:
    near = Line(0.1, line.rate_mbit, line.loss_percent, line.tcp)
    if line == near:
        return
    rest = line.rate_name + line.more_name + load.name
    for what, peer in ((LONG_EPOCHS, LOADER), (load, LOADER), (load, PULL)):
        if what == LONG_EPOCHS and load != USUAL:
            continue
        far_rows = table.best(line, what, [peer], later_epochs)
        near_rows = table.best(near, what, [peer], later_epochs)
        if far_rows and near_rows:
            name = f"epoch_{line.rtt_ms:g}ms_over_0ms{rest}"
            yield from compare(name, far_rows, near_rows, later_epochs)
            yield from compare(f"first_{name}", far_rows, near_rows, first_epoch)
            return


def _costs(table: Table, line: Line, load: Workload) -> Iterator[Result]:
    where = short_place_name(line, load)
    ours = table.emlio(line, load, cpu)
    pulled = table.best(line, load, [PULL], cpu)
    raw = table.best(line, load, [RAW_TCP], cpu)
    paper = table.best(line, load, [PAPER], images_per_s)
    others = [peer for peer in table.peers(line, load) if peer not in NO_PEERS]
    leanest = table.best(line, load, others, cpu, least=True)
    nginx = table.best(line, load, [NGINX], storage_cpu, least=True)
    yield from compare(f"cpu_over_raw_tcp{where}", pulled, raw, cpu)
    yield from compare(f"cpu_over_paper_python{where}", ours, paper, cpu)
    yield from compare(f"cpu_over_best_peer{where}", ours, leanest, cpu)
    yield from compare(f"server_cpu_over_nginx{where}", pulled, nginx, storage_cpu)

    def extra_rtts(emlio_ms: float, raw_ms: float) -> float:
        return (emlio_ms - raw_ms) / line.rtt_ms

    name = f"first_batch_extra_rtts{where}"
    yield from compare(name, pulled, raw, first_batch_ms, "RTT", extra_rtts)


FIGURES: Sequence[tuple[str, str, Value]] = (
    ("images_per_s", "1/s", images_per_s),
    ("mb_per_s", "MB/s", mb_per_s),
    ("steady_wire_mb_per_s", "MB/s", steady),
    ("cpu_s_per_gb", "s/GB", cpu),
    ("storage_cpu_s_per_gb", "s/GB", storage_cpu),
    ("compute_cpu_s_per_gb", "s/GB", compute_cpu),
    ("first_batch_ms", "ms", first_batch_ms),
    ("first_epoch_s", "s", first_epoch),
    ("epoch_s", "s", later_epochs),
    ("memory_mib", "MiB", memory_mib),
)


def figure(cell: Cell, rounds: Rounds, value: Value, metric: str, unit: str) -> Result | None:
    """The median of one series; rows that do not count are left out where others do."""
    values = {number: found for number, row in rounds.items() if (found := value(row)) is not None}
    if not values:
        return None
    counted = [found for number, found in values.items() if counts(rounds[number])]
    used = counted or list(values.values())
    facts = {**cell.to_json(), **_facts(cell, rounds)}
    left_out = len(values) - len(used)
    return summarize(metric, used, unit, judged=bool(counted), left_out=left_out, **facts)


def figures(table: Table) -> Iterator[Result]:
    """What each peer did by itself."""
    for cell, rounds in table.cells():
        variant = "".join(f"_{value}_{name}" for name, value in cell.settings).replace(" ", "_")
        epochs = "_long_epochs" if cell.workload.long_epochs else ""
        start = cell.peer.replace("-", "_") + variant + epochs
        end = cell.line.name + cell.workload.name
        for what, unit, value in FIGURES:
            result = figure(cell, rounds, value, f"{start}_{what}{end}", unit)
            if result is not None:
                yield result


def results(rows: Mapping[Key, Row]) -> list[Result]:
    """Comparisons first, then all figures that they are made of."""
    table = Table(rows)
    return [*comparisons(table), *figures(table)]


def judgement(result: Result) -> str:
    """Whether a goal is met: yes, **no**, or that it is not judged; empty without a goal."""
    goal = GOALS.get(result.metric)
    if goal is None:
        return ""
    met = "yes" if goal.is_met_by(result.value) else "**no**"
    return met if result.settings["judged"] else f"{met} (not judged: disturbed)"


def cpu_bound_sides(result: Result) -> list[str]:
    """Of a comparison: whose programs had all processors busy."""
    sides = [result.settings["ours"], result.settings["theirs"]]
    return list(dict.fromkeys(side["what"] for side in sides if side["cpu_bound"]))
