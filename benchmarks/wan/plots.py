# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Plots over the round-trip time, as SVG and PNG."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.processes import BenchmarkError
from benchmarks.wan import metrics
from benchmarks.wan.metrics import Series, Table, Value
from benchmarks.wan.settings import LOADER, Line, Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# (file, title of the vertical axis, value, the least is the best)
KINDS: Sequence[tuple[str, str, Value, bool]] = (
    ("throughput", "MB/s", metrics.mb_per_s, False),
    ("cpu", "CPU s/GB, both ends", metrics.cpu, True),
    ("first-batch", "ms to the first batch", metrics.first_batch_ms, True),
)
COLORS = 10  # of the map tab10; peers beyond are dashed


def draw(table: Table, folder: Path) -> list[Path]:
    """Draws what has at least two round-trip times; returns the SVG files.

    One figure for each kind, loss, TCP setting and workload, with a panel for each rate.

    Raises:
        BenchmarkError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise BenchmarkError(f"plots need matplotlib (scripts/setup --dev): {error}") from error
    matplotlib.use("Agg")
    # The same results make the same files.
    matplotlib.rcParams["svg.hashsalt"] = "emlio"
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for plane, lines in _planes(table).items():
        for kind, label, value, least in KINDS:
            path = folder / f"wan-{kind}{plane}.svg"
            if _figure(table, lines, path, label, value, least):
                made.append(path)
    return made


def _planes(table: Table) -> dict[str, list[tuple[Line, Workload]]]:
    """Places by all that is not round-trip time or rate."""
    planes: dict[str, list[tuple[Line, Workload]]] = {}
    for line, load in table.places():
        planes.setdefault(f"{line.more_name}{load.name}".replace("_", "-"), []).append((line, load))
    return planes


def _figure(
    table: Table,
    places: Sequence[tuple[Line, Workload]],
    path: Path,
    label: str,
    value: Value,
    least: bool,
) -> bool:
    from matplotlib import pyplot

    rates = [
        rate
        for rate in dict.fromkeys(line.rate_mbit for line, _ in places)
        if len({line.rtt_ms for line, _ in places if line.rate_mbit == rate}) > 1
    ]
    if not rates:
        return False
    rtts_ms = sorted({line.rtt_ms for line, _ in places})
    peers = list(dict.fromkeys(peer for place in places for peer in table.peers(*place)))
    peers.sort(key=lambda peer: (peer != LOADER, peer))
    figure, panels = pyplot.subplots(
        *(1, len(rates)), figsize=(5 * len(rates) + 1.5, 4.5), squeeze=False, sharey=True
    )
    colors = pyplot.get_cmap("tab10")
    for axes, rate in zip(panels[0], rates, strict=True):
        _panel(axes, f"{rate / 1000:g} Gbit/s" if rate else "no rate limit", rtts_ms)
        for i, peer in enumerate(peers):
            points = list(_points(table, places, rate, peer, value, least))
            if points:
                rtts, middles, below, above = zip(*points, strict=True)
                width = 2.4 if peer == LOADER else 1.2
                style: dict[str, Any] = {"marker": "o", "markersize": 3, "capsize": 2}
                style |= {"linewidth": width, "color": colors(i % COLORS), "label": peer}
                style["linestyle"] = "--" if i >= COLORS else "-"
                axes.errorbar(rtts, middles, yerr=(below, above), **style)
    panels[0][0].set_ylabel(label)
    handles: dict[str, Any] = {}
    for axes in panels[0]:
        found, names = axes.get_legend_handles_labels()
        handles |= dict(zip(names, found, strict=True))
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="center right", fontsize="small")
    figure.tight_layout(rect=(0, 0, 1 - 1.5 / figure.get_figwidth(), 1))
    figure.savefig(path, metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=110)
    pyplot.close(figure)
    return bool(handles)


def _panel(axes: "Axes", title: str, rtts_ms: Sequence[float]) -> None:
    from matplotlib.ticker import LogFormatter, NullFormatter, StrMethodFormatter

    axes.set_title(title)
    axes.set_xlabel("round-trip time, ms")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(rtts_ms, [f"{rtt_ms:g}" for rtt_ms in rtts_ms])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(LogFormatter())  # says less the more powers of ten there are
    axes.tick_params(axis="y", which="minor", labelsize="x-small")
    axes.grid(visible=True, which="major", alpha=0.3)


def _points(
    table: Table,
    places: Sequence[tuple[Line, Workload]],
    rate: float,
    peer: str,
    value: Value,
    least: bool,
) -> Iterator[tuple[float, float, float, float]]:
    """Round-trip time, median, and how far the extremes are below and above it."""
    for line, load in places:
        if line.rate_mbit != rate:
            continue
        series: Series | None = table.best(line, load, [peer], value, least)
        if series is not None:
            values = [v for row in series[1].values() if (v := value(row)) is not None]
            result = metrics.figure(*series, value, "", "")
            assert result is not None
            middle = result.value
            below, above = middle - min(values), max(values) - middle
            yield line.rtt_ms, middle, max(0.0, below), max(0.0, above)
