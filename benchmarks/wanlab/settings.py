# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What a laboratory is to be like: links, nodes, and which joins which."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

DirectionName = Literal["to_compute", "to_storage"]
DIRECTIONS: tuple[DirectionName, DirectionName] = ("to_compute", "to_storage")

MIN_QUEUE_BYTES = 1 << 20


@dataclass(frozen=True)
class Direction:
    """One direction of a link.

    Attributes:
        delay_ms: From one end to the other: half of the round-trip time when both ways are alike.
        jitter_ms: The delay wanders between delay - jitter and delay + jitter; packets stay in
            order. At most `delay_ms`.
        rate_mbit: Of an Ethernet wire, framing included (10^6 bits a second); 0: no limit.
        loss_percent: Share of packets that are lost.
        reorder_percent: Share of packets that come `reorder_by_ms` late, so that others overtake.
        reorder_by_ms: How late those are.
        queue_bytes: What may wait for the wire, framing included; more is dropped. Where neither
            this nor `queue_packets` is given: what the rate sends in a round trip, at least 1 MiB.
        queue_packets: The same in packets.
        cut: Everything that comes is lost.
        stalled: Time stands still on this direction; nothing is lost until the queue is full.
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    rate_mbit: float = 0.0
    loss_percent: float = 0.0
    reorder_percent: float = 0.0
    reorder_by_ms: float = 1.0
    queue_bytes: int | None = None
    queue_packets: int | None = None
    cut: bool = False
    stalled: bool = False

    def to_json(self) -> dict[str, Any]:
        """The fields of the emulator; an absent queue is absent."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Link:
    """A link between a storage node and a compute node."""

    to_compute: Direction = Direction()
    to_storage: Direction = Direction()
    mtu: int = 1500

    @property
    def rtt_ms(self) -> float:
        return self.to_compute.delay_ms + self.to_storage.delay_ms

    def direction(self, name: DirectionName) -> Direction:
        return self.to_compute if name == "to_compute" else self.to_storage

    def queue_bytes(self, name: DirectionName) -> int | None:
        """How much may wait for the wire; nothing where packets are counted or never wait."""
        direction = self.direction(name)
        if direction.queue_bytes is not None or direction.queue_packets is not None:
            return direction.queue_bytes
        if direction.rate_mbit == 0:
            return None
        return max(MIN_QUEUE_BYTES, round(direction.rate_mbit * 1e6 / 8 * self.rtt_ms / 1e3))


def symmetric_link(rtt_ms: float = 0.0, mtu: int = 1500, **fields: Any) -> Link:
    """A link that is the same both ways; `fields` are those of Direction except the delay."""
    direction = Direction(delay_ms=rtt_ms / 2, **fields)
    return Link(direction, direction, mtu)


@dataclass(frozen=True)
class NodeSettings:
    """What the kernel of a node is like; None leaves a value as the system has it.

    `congestion` may be any algorithm that the kernel has, also one that namespaces may not set as
    their default: it is then set on the routes, which every connection follows.
    """

    congestion: str | None = None
    tcp_wmem: str | None = None
    tcp_rmem: str | None = None
    sysctls: dict[str, str] = field(default_factory=dict)

    def all_sysctls(self) -> dict[str, str]:
        values = dict(self.sysctls)
        if self.tcp_wmem is not None:
            values["net.ipv4.tcp_wmem"] = self.tcp_wmem
        if self.tcp_rmem is not None:
            values["net.ipv4.tcp_rmem"] = self.tcp_rmem
        return values


@dataclass(frozen=True)
class Topology:
    """Which nodes there are and what joins them: `links` are (storage, compute, link)."""

    storage: int
    compute: int
    links: tuple[tuple[int, int, Link], ...]
    node_settings: NodeSettings = NodeSettings()

    def __post_init__(self) -> None:
        if self.storage < 1 or self.compute < 1 or self.storage + self.compute > 64:
            raise ValueError("a laboratory has at least one node of each kind and at most 64 nodes")
        seen = set()
        for storage, compute, _ in self.links:
            if not (0 <= storage < self.storage and 0 <= compute < self.compute):
                raise ValueError(f"a link joins storage {storage} and compute {compute}: no such")
            if (storage, compute) in seen:
                raise ValueError(f"two links join storage {storage} and compute {compute}")
            seen.add((storage, compute))

    @staticmethod
    def pair(link: Link) -> "Topology":
        """One storage node, one compute node."""
        return Topology(1, 1, ((0, 0, link),))

    @staticmethod
    def many_storage(links: Sequence[Link]) -> "Topology":
        """As many storage nodes as links, each joined to the one compute node."""
        return Topology(len(links), 1, tuple((i, 0, link) for i, link in enumerate(links)))

    @staticmethod
    def many_compute(links: Sequence[Link]) -> "Topology":
        """As many compute nodes as links, each joined to the one storage node."""
        return Topology(1, len(links), tuple((0, i, link) for i, link in enumerate(links)))

    def with_nodes(self, settings: NodeSettings) -> "Topology":
        return replace(self, node_settings=settings)
