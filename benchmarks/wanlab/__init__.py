# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A laboratory for wide-area links: network namespaces on one machine, joined by emulated links.

    from benchmarks.wanlab import Lab, Topology, symmetric_link

    with Lab(Topology.pair(symmetric_link(rtt_ms=30, rate_mbit=5000))) as lab:
        server = lab.storage[0].popen(["iperf3", "-s", "-1"])
        lab.compute[0].run(["iperf3", "-c", lab.address_of(lab.storage[0])])

README.md beside this file says how it works and how far it can be trusted.
"""

from benchmarks.wanlab.lab import Lab, LabError, Node, NotPermittedError, find_emulator
from benchmarks.wanlab.settings import Direction, Link, NodeSettings, Topology, symmetric_link

__all__ = [
    "Direction",
    "Lab",
    "LabError",
    "Link",
    "Node",
    "NodeSettings",
    "NotPermittedError",
    "Topology",
    "find_emulator",
    "symmetric_link",
]
