# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""iperf3: as many bytes, and nothing else. What the link gives to TCP with the system's settings.

Settings. streams=8. The best number depends on the link: 4 to 8 at 0 ms, 16 at 30 ms without a rate
limit; benchmarks/wan tries several. The storage node sends (-R), in buffers of 1 MiB, the largest
that iperf3 takes.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from benchmarks.peers import servers
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Marks, Peer, Program, Service, run_command
from benchmarks.processes import Background, BenchmarkError, command_line

CONNECTING_S = 0.1  # it connects its streams one after another, before it counts seconds
IPERF3 = Program("iperf3", "iperf3")


class Iperf3(Peer):
    name = "iperf3"
    title = "iperf3"
    programs = (IPERF3,)
    delivers_images = False
    decodes = False
    defaults: ClassVar[Mapping[str, Any]] = {"streams": 8}

    def prepare(self) -> None:
        return None  # it makes up its bytes

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        port = servers.free_port()
        command = command_line(
            *(servers.find(IPERF3), "-s", "-B", node.address, "-p", port, "--forceflush")
        )
        with Background(command, self.work.scratch / "iperf3.log", popen=node.popen) as server:
            server.wait_for_output("Server listening")
            yield {"address": node.address, "port": port}

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        size = self.work.images.total_bytes * self.work.passes
        command = command_line(
            *(servers.find(IPERF3), "-c", service["address"], "-p", service["port"], "-R"),
            *("-P", self.settings["streams"], "-n", size, "-l", "1M", "-J"),
        )
        log = self.work.scratch / "iperf3-read.log"
        connecting_s = CONNECTING_S * self.settings["streams"]
        output = run_command(node, command, log, self.work, marks, connecting_s)
        told = json.loads(output.text)
        # At SIGINT it says what has come by then, and takes it for an error.
        if output.is_cut and not told["error"].startswith("interrupt"):
            raise BenchmarkError(f"iperf3: {told['error']}")
        received = told["end"]["sum_received"]
        return {
            "ended_by": output.ended_by,
            "bytes": received["bytes"],
            "seconds": received["seconds"],
        }
