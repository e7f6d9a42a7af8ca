# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Links by the kernel's own emulator, sch_netem, on pairs of veth devices.

What netem cannot do as Direction says is left to our emulator: its jitter changes the order of
packets, it sends reordered packets at once instead of late, and it cannot stand still.
"""

import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.wanlab.settings import DirectionName, Link

# What an Ethernet wire adds to a packet of a veth device, whose length has the Ethernet header.
FRAMING_BYTES = 24
ETHERNET_BYTES = 38
UNLIMITED_PACKETS = 1_000_000
PROBE = (
    "ip link add probe0 type veth peer name probe1 && "
    "ip link set dev probe0 gso_max_segs 1 && "
    f"tc qdisc add dev probe0 root netem limit 10 delay 1ms loss 1% rate 1mbit {FRAMING_BYTES}"
)


def why_not(links: Sequence[Link]) -> str | None:
    """Why these links cannot be made by netem; None where they can."""
    for link in links:
        if reason := cannot_do(link):
            return reason
    for program in ("ip", "tc", "unshare"):
        if shutil.which(program) is None:
            return f"there is no program {program}"
    reason = "namespaces cannot be made"
    for options in (["--net"], ["--user", "--map-root-user", "--net"]):
        done = subprocess.run(
            ["unshare", *options, "sh", "-c", PROBE], capture_output=True, text=True, timeout=20
        )
        if done.returncode == 0:
            return None
        reason = done.stderr.strip() or reason
    return reason


def cannot_do(link: Link) -> str | None:
    """What netem cannot do of a link."""
    for direction in (link.to_compute, link.to_storage):
        if direction.jitter_ms > 0:
            return "netem's jitter changes the order of packets"
        if direction.reorder_percent > 0:
            return "netem sends reordered packets at once instead of late"
        if direction.stalled:
            return "netem cannot stand still"
    return None


def changed(link: Link, direction: DirectionName | None, fields: Mapping[str, Any]) -> Link:
    """A link with some fields of one direction, or of both, replaced."""
    if direction != "to_storage":
        link = replace(link, to_compute=replace(link.to_compute, **fields))
    if direction != "to_compute":
        link = replace(link, to_storage=replace(link.to_storage, **fields))
    return link


def link_command(number: int, peer_namespace: str) -> list[str]:
    """Makes both ends of a link, the far one in the namespace that a path leads to."""
    name = f"link{number}"
    return [
        *("ip", "link", "add", name, "type", "veth"),
        *("peer", "name", name, "netns", peer_namespace),
    ]


def end_commands(number: int, address: str, link: Link) -> list[list[str]]:
    """Sets up one end of a link.

    netem loses what it is handed as a whole. So that this is one packet, super-packets are off
    where packets are lost, at the expense of processor time.
    """
    name = f"link{number}"
    lossy = link.to_compute.loss_percent > 0 or link.to_storage.loss_percent > 0
    gso = ["gso_max_segs", "1"] if lossy else []
    return [
        ["ip", "link", "set", "dev", name, "mtu", str(link.mtu), *gso],
        ["ip", "addr", "add", address, "dev", name],
        ["ip", "link", "set", "dev", name, "up"],
    ]


def qdisc_command(number: int, link: Link, direction_name: DirectionName) -> list[str]:
    """Makes or changes what the sending end of a direction does."""
    direction = link.direction(direction_name)
    command = ["tc", "qdisc", "replace", "dev", f"link{number}", "root", "netem"]
    command += ["limit", str(_limit_packets(link, direction_name))]
    command += ["delay", f"{direction.delay_ms:g}ms"]
    if direction.cut or direction.loss_percent > 0:
        command += ["loss", f"{100 if direction.cut else direction.loss_percent:g}%"]
    if direction.rate_mbit > 0:
        command += ["rate", f"{round(direction.rate_mbit * 1e6)}bit", str(FRAMING_BYTES)]
    return command


def _limit_packets(link: Link, direction_name: DirectionName) -> int:
    """What netem may hold: the queue, and what is on its way, which it counts as well."""
    direction = link.direction(direction_name)
    if direction.rate_mbit == 0:
        return UNLIMITED_PACKETS
    packet_bytes = link.mtu + ETHERNET_BYTES
    on_the_way = direction.rate_mbit * 1e6 / 8 * direction.delay_ms / 1e3 / packet_bytes
    queue_bytes = link.queue_bytes(direction_name)
    waiting = []
    if queue_bytes is not None:
        waiting.append(queue_bytes / packet_bytes)
    if direction.queue_packets is not None:
        waiting.append(direction.queue_packets)
    return math.ceil(on_the_way + min(waiting))
