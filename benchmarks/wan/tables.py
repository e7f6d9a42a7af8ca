# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Results as Markdown, for the terminal and for documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import BenchmarkError
from benchmarks.report import Result, number
from benchmarks.wan import metrics
from benchmarks.wan.metrics import GOALS, Rounds, Table, judgement
from benchmarks.wan.settings import Cell, Line, Workload
from benchmarks.wan.store import Store

BEGIN = "<!-- benchmarks/wan/run --report writes from here -->"
END = "<!-- to here -->"


def table(head: str, rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table; columns behind the first are numbers unless the heading begins with -."""
    names = [name.strip() for name in head.split("|")]
    rules = [":---" if i == 0 or name.startswith("-") else "---:" for i, name in enumerate(names)]
    lines = [[name.lstrip("-") for name in names], rules, *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def interval(result: Result) -> str:
    if result.ci95 is None:
        return ""
    return " … ".join(map(number, result.ci95))


def deviation(result: Result) -> str:
    """Of one run there is none, and not 0."""
    return number(result.sd) if result.n > 1 else ""


def goals_table(results: Iterable[Result]) -> list[str]:
    """Every goal, also those that nothing was measured for."""
    found = {result.metric: result for result in results}
    rows: list[Sequence[object]] = []
    for metric, goal in GOALS.items():
        r = found.get(metric)
        if r is None:
            rows.append((f"`{metric}`", goal, "not measured", "", "", "", "", "", ""))
        else:
            mean = "" if r.mean is None else number(r.mean)
            figures = number(r.value), mean, deviation(r), interval(r), r.n
            rows.append((f"`{metric}`", goal, *figures, judgement(r), versus(r)))
    return table("metric|goal|median|mean|sd|95 % CI|n|-met|-what by what", rows)


def comparison_table(comparisons: Iterable[Result]) -> list[str]:
    rows = [
        (f"`{r.metric}`", number(r.value), deviation(r), interval(r), r.n, judgement(r), versus(r))
        for r in comparisons
    ]
    return table("metric|median|sd|95 % CI|n|-goal met|-what by what", rows)


def versus(result: Result) -> str:
    ours, theirs = result.settings["ours"]["what"], result.settings["theirs"]["what"]
    left_out = result.settings["left_out"]
    busy = metrics.cpu_bound_sides(result)
    return (
        f"{ours} by {theirs}"
        + (f"; all processors busy: {', '.join(busy)}" if busy else "")
        + (f"; {left_out} disturbed left out" if left_out else "")
    )


def _one(cell: Cell, rounds: Rounds, value: metrics.Value) -> str:
    result = metrics.figure(cell, rounds, value, "", "")
    if result is None:
        return "n/a"
    return number(result.value) + (f" ± {number(result.sd)}" if result.n > 1 else "")


PLACE_HEAD = (
    "peer|images/s|MB/s|wire, steady MB/s|CPU s/GB storage|CPU s/GB compute|first batch ms"
    "|memory MiB|GB a run|idle %|n"
)


def place_table(rows: Table, line: Line, load: Workload) -> list[str]:
    """What every peer did on a line, the quickest first."""
    here = [
        (cell, rounds)
        for cell, rounds in rows.cells()
        if (cell.line, cell.workload) == (line, load)
    ]
    here.sort(key=lambda series: -max(row["mb_per_s"] for row in series[1].values()))
    lines = []
    for cell, rounds in here:
        some = list(rounds.values())
        idle = min(row["idle_share"] for row in some)
        disturbed = sum(not metrics.counts(row) for row in some)
        busy = ", CPU-bound" if any(map(metrics.is_cpu_bound, some)) else ""
        lines.append(
            [
                cell.label,
                *(_one(cell, rounds, value) for value in COLUMNS),
                f"{max(row['bytes'] for row in some) / 1e9:.2g}"
                + (" (cut)" if any(row["ended_by"] == "seconds" for row in some) else ""),
                f"{100 * idle:.0f}{busy}" + (f" ({disturbed} disturbed)" if disturbed else ""),
                len(some),
            ]
        )
    return table(PLACE_HEAD, lines)


COLUMNS: Sequence[metrics.Value] = (
    metrics.images_per_s,
    metrics.mb_per_s,
    metrics.steady,
    metrics.storage_cpu,
    metrics.compute_cpu,
    metrics.first_batch_ms,
    metrics.memory_mib,
)


def place_title(line: Line, load: Workload) -> str:
    rate = f"{line.rate_mbit / 1000:g} Gbit/s" if line.rate_mbit else "no rate limit"
    parts = [f"{line.rtt_ms:g} ms", rate]
    if line.loss_percent:
        parts.append(f"{line.loss_percent:g} % loss")
    parts.append("CUBIC" if line.tcp == "cubic" else f"{line.tcp} TCP settings")
    parts.append("photographs, decoded" if load.decode else f"images of {load.size_name}")
    return ", ".join(parts)


def epoch_table(rows: Table) -> list[str]:
    """First and later epochs of EMLIO's runs of long epochs."""
    lines = [
        [
            place_title(cell.line, cell.workload),
            *(
                _one(cell, rounds, value)
                for value in (metrics.first_epoch, metrics.later_epochs, metrics.first_batch_ms)
            ),
            len(rounds),
        ]
        for cell, rounds in rows.cells()
        if cell.workload.long_epochs
    ]
    return table("line|first epoch s|later epochs s|first batch ms|n", lines) if lines else []


# Of all that is installed with peers, what they are.
PROGRAMS = (
    *("emlio", "python", "iperf3", "pyzmq", "webdataset", "torch", "tensorflow_cpu"),
    *("nvidia-dali-cuda120", "grain", "litdata", "mosaicml-streaming", "spdl"),
    *("nginx-light", "nfs-ganesha", "sshfs"),
)


def _provenance(store: Store) -> Iterator[str]:
    machine = store.environment
    rows = store.rows().values()
    dates = sorted(row["date"][:10] for row in rows)
    commits = list(dict.fromkeys(row["commit"][:12] for row in rows))
    links = {
        f"{row['link']['congestion']}, `tcp_wmem` {row['link']['tcp_wmem']}, "
        f"`tcp_rmem` {row['link']['tcp_rmem']}".replace("\t", " ")
        for row in rows
    }
    yield f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {machine['cores']} cores of "
    yield f"{machine['cpu']}, {machine['memory_gib']} GiB; Linux {machine['kernel']}; commit "
    yield f"{', '.join(commits)}; {'; '.join(sorted(links))}. Versions: "
    # By package: several peers have the same one, and the rest is in the file of results.
    named = {name.rpartition(" ")[2]: version for name, version in machine["versions"].items()}
    yield ", ".join(f"{p} {named[p].rpartition(' ')[2]}" for p in PROGRAMS if p in named) + "."


def document(store: Store, results: Sequence[Result], plots: Sequence[str]) -> str:
    """Everything, as the part of a document below a heading of the second level."""
    rows = Table(store.rows())
    parts = [
        "```sh\n" + "\n".join(store.commands) + "\n```",
        "".join(_provenance(store)),
        "### Goals\n\n" + "\n".join(goals_table(results)),
    ]
    if others := [r for r in results if "ours" in r.settings and r.metric not in GOALS]:
        parts.append("### Other comparisons\n\n" + "\n".join(comparison_table(others)))
    if epochs := epoch_table(rows):
        parts.append("### EMLIO's epochs of 2 GB\n\n" + "\n".join(epochs))
    parts += [f"![{Path(plot).stem}]({plot})" for plot in plots]
    for line, load in rows.places():
        if rows.peers(line, load):
            lines = place_table(rows, line, load)
            parts.append(f"### {place_title(line, load)}\n\n" + "\n".join(lines))
    if missing := store.missing:
        lacking = "\n".join(f"- {peer}: {reason}" for peer, reason in missing.items())
        parts.append(f"Not measured, since they are not installed:\n\n{lacking}")
    if failures := failure_lines(store):
        parts.append("Runs that failed:\n\n" + "\n".join(failures))
    return "\n\n".join(parts)


def failure_lines(store: Store) -> list[str]:
    seen: Mapping[str, Any] = {str(cell): reason for (cell, _), reason in store.failures().items()}
    return [f"- {cell}: {str(reason).splitlines()[-1][:300]}" for cell, reason in seen.items()]


def write_into(path: Path, text: str) -> None:
    """Replaces what stands between the two marks of a document.

    Raises:
        BenchmarkError: the document has no such marks.
    """
    document_text = path.read_text()
    before, begin, rest = document_text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchmarkError(f"{path} lacks the lines {BEGIN} and {END}, between which tables go")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
