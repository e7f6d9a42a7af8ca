# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What is measured: cells of a matrix, and the named choices among them.

A cell is one way of reading (a peer with its settings) of one workload over one line. All cells of
a block, which differ in round-trip time and peer only, are run in turns, round after round.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from benchmarks.peers.harness import PEERS
from benchmarks.wanlab import Link, NodeSettings, symmetric_link

Tcp = Literal["stock", "raised", "cubic"]
TCP_SETTINGS: Mapping[Tcp, NodeSettings] = {
    "stock": NodeSettings(),  # as the system has it
    "raised": NodeSettings(tcp_wmem="4096 65536 67108864", tcp_rmem="4096 131072 134217728"),
    "cubic": NodeSettings(congestion="cubic"),
}

RTTS_MS = (0.1, 1.0, 10.0, 30.0, 100.0, 200.0)
RATES_MBIT = (0.0, 5000.0, 1000.0)
LOSSES_PERCENT = (0.0, 0.1)
IMAGE_BYTES = (10_000, 100_000, 2_000_000)
USUAL_IMAGE_BYTES = 100_000
SIZE_NAMES = {10_000: "10kb", 100_000: "100kb", 2_000_000: "2mb"}

LOADER = "emlio"
PULL = "emlio-pull"
PAPER = "paper-python"
IPERF3 = "iperf3"
RAW_TCP = "raw-tcp"
NGINX = "nginx"
# What is no released loader of others, and so never "the best peer".
NO_PEERS = (LOADER, PULL, PAPER, IPERF3, RAW_TCP, NGINX)
# What hands out no images, or throws them away.
NO_DECODERS = (PULL, IPERF3, RAW_TCP, NGINX)
# Those that are quick over the longest lines.
BEST_PEERS = (*NO_PEERS, "webdataset", "tfdata", "litdata")
# A value of the setting `streams`: as many as EMLIO had on the same line.
AS_EMLIO = "as emlio"

Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Line:
    """A link, and what the kernels at its ends are set to.

    Attributes:
        rtt_ms: Round-trip time.
        rate_mbit: Of the wire; 0: no limit.
        loss_percent: Of the packets, both ways.
        tcp: A name in TCP_SETTINGS.
    """

    rtt_ms: float
    rate_mbit: float
    loss_percent: float = 0.0
    tcp: Tcp = "stock"

    @property
    def rate_name(self) -> str:
        return f"_{self.rate_mbit / 1000:g}g" if self.rate_mbit else ""

    @property
    def name(self) -> str:
        """What the names of metrics end in: _30ms_5g. What is called 0 ms is a LAN's 0.1."""
        rtt_ms = 0 if self.rtt_ms == RTTS_MS[0] else self.rtt_ms
        return f"_{rtt_ms:g}ms{self.rate_name}{self.more_name}"

    @property
    def more_name(self) -> str:
        loss = "_loss" if self.loss_percent else ""
        return loss + ("" if self.tcp == "stock" else f"_{self.tcp}")

    def link(self, queue_bytes: int | None) -> Link:
        return symmetric_link(
            self.rtt_ms,
            rate_mbit=self.rate_mbit,
            loss_percent=self.loss_percent,
            queue_bytes=queue_bytes,
        )


@dataclass(frozen=True)
class Workload:
    """What is read.

    Attributes:
        image_bytes: Mean size of the images.
        decode: Readers decode them; they are photographs then, of about 103 KB.
        long_epochs: Passes over 2 GB, instead of several over 0.4 GB until it is 2 GB.
    """

    image_bytes: int = USUAL_IMAGE_BYTES
    decode: bool = False
    long_epochs: bool = False

    @property
    def name(self) -> str:
        """What the names of metrics have behind that of the line."""
        size = "" if self.image_bytes == USUAL_IMAGE_BYTES else f"_{self.size_name}"
        return size + ("_decode" if self.decode else "")

    @property
    def size_name(self) -> str:
        return SIZE_NAMES.get(self.image_bytes, f"{self.image_bytes}b")


USUAL = Workload()
LONG_EPOCHS = Workload(long_epochs=True)
LONG_EPOCH_BYTES = 2e9


def long_epochs(line: Line) -> int:
    """How many passes a run of long epochs makes: the first, and later ones."""
    return 2 if line.rate_mbit == 1000 else 3  # 17 s each at 1 Gbit/s


@dataclass(frozen=True)
class Cell:
    """A peer with settings that differ from its defaults, on a line, with a workload."""

    line: Line
    workload: Workload
    peer: str
    settings: Settings = ()

    def __str__(self) -> str:
        epochs = ", 2 GB epochs" if self.workload.long_epochs else ""
        return f"{self.label}{self.line.name}{self.workload.name}{epochs}"

    @property
    def label(self) -> str:
        """The peer, with the settings that it was given."""
        values = " ".join(f"{name}={value}" for name, value in self.settings)
        return f"{self.peer} ({values})" if values else self.peer

    def to_json(self) -> dict[str, Any]:
        flat = {**asdict(self.line), **asdict(self.workload)}
        return {**flat, "peer": self.peer, "settings": dict(self.settings)}

    @staticmethod
    def from_json(flat: Mapping[str, Any]) -> "Cell":
        line = Line(**{field.name: flat[field.name] for field in fields(Line)})
        workload = Workload(**{field.name: flat[field.name] for field in fields(Workload)})
        return Cell(line, workload, flat["peer"], tuple(flat["settings"].items()))


def blocks(cells: Iterable[Cell]) -> list[list[Cell]]:
    """The cells in blocks: same rate, loss, TCP settings, size and decoding; RTTs together."""
    found: dict[Any, list[Cell]] = {}
    for cell in dict.fromkeys(cells):
        line, load = cell.line, cell.workload
        key = (line.rate_mbit, line.loss_percent, line.tcp, load.image_bytes, load.decode)
        found.setdefault(key, []).append(cell)
    return [sorted(block, key=lambda cell: cell.line.rtt_ms) for block in found.values()]


def turns(block: Sequence[Cell], number: int) -> list[list[Cell]]:
    """The cells of a block in the order of a round, line by line; every other round backwards."""
    by_line = [list(cells) for _, cells in itertools.groupby(block, lambda cell: cell.line)]
    if number % 2:
        by_line = [cells[::-1] for cells in reversed(by_line)]
    return by_line


def variants(peer: str, line: Line) -> list[Settings]:
    """The settings among which a peer's best is sought on a line: () is its defaults."""
    if peer == IPERF3:
        counts: tuple[int, ...]
        if line.tcp == "raised":
            counts = (1, 8)
        elif line.rate_mbit == 1000:  # a few fill it
            counts = (8,) if line.rtt_ms <= 100 else (16,)
        elif line.rtt_ms <= 10:
            counts = (4, 8)
        else:
            counts = (8, 16) if line.rtt_ms < 100 else (16, 24)
        streams: list[Any] = [*counts, AS_EMLIO] if line.loss_percent else [*counts]
        return [(("streams", count),) for count in streams]
    if peer == PAPER:
        if line.rtt_ms <= 1:
            threads: tuple[int, ...] = (2, 4)
        elif line.rate_mbit == 1000:
            threads = (8,)
        else:
            threads = (4, 8) if line.rtt_ms <= 10 else (8, 16)
        return [(("threads", count),) for count in threads]
    if peer in (RAW_TCP, NGINX):
        return [(("streams", AS_EMLIO),)]
    return [()]


def cells_of(line: Line, workload: Workload, peers: Iterable[str]) -> Iterator[Cell]:
    """The cells of some peers on a line, those with the workload's other variants among them."""
    for peer in peers:
        for settings in variants(peer, line):
            yield Cell(line, workload, peer, settings)


def released_peers() -> list[str]:
    """The loaders of others."""
    return [name for name in PEERS if name not in NO_PEERS]


# The default matrix. All peers are measured at all distances and rates; the rest, and what can say
# nothing new, is thinned, all of it here.
DISTANCES_MS = (0.1, 1.0, 10.0, 30.0, 100.0)
# A file a sample: round trips limit them from 10 ms on, whatever the rate.
FILE_PEERS = ("torch-nfs", "torch-sshfs")
# Yardsticks for costs: they are compared at these distances.
YARDSTICK_RTTS_MS: Mapping[str, Sequence[float]] = {
    PULL: (0.1, 30.0, 100.0),
    RAW_TCP: (0.1, 30.0, 100.0),
    NGINX: (30.0,),
}
# With loss at 100 ms, and with other sizes, only these can be near EMLIO.
STRONGEST = (LOADER, IPERF3, PAPER, "webdataset", "tfdata", "dali")


@dataclass(frozen=True)
class Part:
    """A part of the default matrix: every combination of what it names."""

    peers: Sequence[str]
    rtts_ms: Sequence[float]
    rates_mbit: Sequence[float] = (5000.0,)
    losses_percent: Sequence[float] = (0.0,)
    tcps: Sequence[Tcp] = ("stock",)
    loads: Sequence[Workload] = (USUAL,)


def default_parts() -> list[Part]:
    """In the order of their importance."""
    everybody = tuple(PEERS)
    decoders = tuple(peer for peer in PEERS if peer not in NO_DECODERS)
    sizes = [Workload(size) for size in IMAGE_BYTES if size != USUAL_IMAGE_BYTES]
    return [
        Part(everybody, DISTANCES_MS, (5000.0, 1000.0, 0.0)),
        Part((LOADER,), DISTANCES_MS, loads=(LONG_EPOCHS,)),
        Part(BEST_PEERS, (200.0,)),
        # Losses hurt TCP alike, whoever uses it; the more so the longer the line.
        Part(everybody, (30.0,), losses_percent=(0.1,)),
        Part(STRONGEST, (100.0,), losses_percent=(0.1,)),
        Part((LOADER, IPERF3), (30.0,), (1000.0,), losses_percent=(0.1,)),
        # Decoding keeps all processors busy: the line hardly matters, and its rate not at all.
        Part(decoders, (0.1, 30.0), loads=(Workload(decode=True),)),
        Part((*STRONGEST, RAW_TCP, PULL), (30.0,), loads=sizes),
        # TCP settings are the kernel's: EMLIO beside what the kernel can do.
        Part((LOADER, IPERF3), (30.0, 100.0), (5000.0, 0.0), tcps=("raised", "cubic")),
    ]


def is_thinned(cell: Cell) -> bool:
    """Whether a cell of a part could say nothing new."""
    line = cell.line
    if cell.peer in FILE_PEERS and line.rtt_ms >= 10:
        return line.rate_mbit != 5000
    return line.rtt_ms not in YARDSTICK_RTTS_MS.get(cell.peer, RTTS_MS)


def default_matrix() -> list[Cell]:
    """The cells of all parts, thinned."""
    found: list[Cell] = []
    for part in default_parts():
        for rate, loss, tcp, load, rtt_ms in itertools.product(
            part.rates_mbit, part.losses_percent, part.tcps, part.loads, part.rtts_ms
        ):
            found += cells_of(Line(rtt_ms, rate, loss, tcp), load, _known(*part.peers))
    return [cell for cell in found if not is_thinned(cell)]


@dataclass(frozen=True)
class Axes:
    """Every combination of the values of all axes (--all)."""

    peers: Sequence[str]
    rtts_ms: Sequence[float] = RTTS_MS
    rates_mbit: Sequence[float] = RATES_MBIT
    losses_percent: Sequence[float] = LOSSES_PERCENT
    decodes: Sequence[bool] = (False, True)
    image_bytes: Sequence[int] = IMAGE_BYTES
    tcps: Sequence[Tcp] = tuple(TCP_SETTINGS)


def matrix(axes: Axes) -> list[Cell]:
    """The cells of the axes. Photographs, which are what is decoded, have one size."""
    found: list[Cell] = []
    for rate, loss, tcp, size, decode, rtt_ms in itertools.product(
        *(axes.rates_mbit, axes.losses_percent, axes.tcps),
        *(axes.image_bytes, axes.decodes, axes.rtts_ms),
    ):
        if decode and size != USUAL_IMAGE_BYTES:
            continue
        line = Line(rtt_ms, rate, loss, tcp)
        able = [p for p in axes.peers if p in PEERS and not (decode and p in NO_DECODERS)]
        found += cells_of(line, Workload(size, decode), able)
    return found


def goals() -> list[Cell]:
    """What the goals need, and no more; the important ones first.

    Runs are shared: the costs, the rates and the time to the first batch at 30 ms and 5 Gbit/s are
    of the same runs, and at 1 Gbit/s the steady rate is that of the long epochs.
    """
    others = released_peers()
    found: list[Cell] = []

    def add(line: Line, *peers: str, load: Workload = USUAL) -> None:
        found.extend(cells_of(line, load, peers))

    for rtt_ms in (30.0, 0.1):
        add(Line(rtt_ms, 5000.0), LOADER, load=LONG_EPOCHS)
    add(Line(30.0, 5000.0), LOADER, IPERF3, PULL, PAPER, *_known(RAW_TCP, NGINX), *others)
    add(Line(100.0, 5000.0), LOADER, IPERF3, *others)
    add(Line(0.1, 0.0), LOADER, PAPER)
    add(Line(30.0, 0.0), LOADER, PAPER, *others)
    lossy = Line(30.0, 5000.0, 0.1)
    found += [
        Cell(lossy, USUAL, LOADER),
        Cell(lossy, USUAL, IPERF3, (("streams", AS_EMLIO),)),
    ]
    for size in (10_000, 2_000_000):
        add(Line(30.0, 5000.0), LOADER, IPERF3, load=Workload(size))
    for rtt_ms in (0.1, 30.0, 100.0):
        add(Line(rtt_ms, 1000.0), LOADER, load=LONG_EPOCHS)
        if rtt_ms >= 30:
            add(Line(rtt_ms, 1000.0), IPERF3)
    return found


def quick() -> list[Cell]:
    """EMLIO, the hardest released peer, the paper's design and iperf3: 30 ms and 1 Gbit/s."""
    far, near = Line(30.0, 1000.0), Line(0.1, 1000.0)
    return [
        Cell(near, USUAL, LOADER),
        Cell(far, USUAL, LOADER),
        Cell(far, USUAL, IPERF3),
        Cell(far, USUAL, PAPER),
        Cell(far, USUAL, "webdataset"),
    ]


def check() -> list[Cell]:
    """What the bands of bands.json are about."""
    far, near = Line(30.0, 1000.0), Line(0.1, 1000.0)
    raw = [Cell(far, USUAL, name, (("streams", AS_EMLIO),)) for name in _known(RAW_TCP)]
    return [
        Cell(near, USUAL, PULL),
        Cell(far, USUAL, PULL),
        Cell(far, USUAL, IPERF3),
        *raw,
    ]


def _known(*peers: str) -> list[str]:
    return [peer for peer in peers if peer in PEERS]
