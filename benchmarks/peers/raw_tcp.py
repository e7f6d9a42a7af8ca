# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The floor: EMLIO's work by plain sockets, as quick as we could make it (raw_tcp_peer.cc).

The sender gathers the records of the same TFRecord shards in full random order and sends them over
its streams, chunks growing as EMLIO's do; the reader verifies the CRC-32C of every record and that
each came once a pass. It has no credit, no order of its own, no resuming, no other clients.

Settings. streams=8: give it as many as EMLIO uses. Its clock starts before it connects; its
processor time is that of the whole process, as for `emlio pull`.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import servers
from benchmarks.peers.node import Node
from benchmarks.peers.peer import BATCH_SIZE, BUILD, Marks, Peer, Service, run_command
from benchmarks.processes import Background, BenchmarkError, command_line

PROGRAM = "raw_tcp_peer"


class RawTcp(Peer):
    name = "raw-tcp"
    title = "EMLIO's work by plain sockets"
    builds = (PROGRAM,)
    decodes = False
    defaults: ClassVar[Mapping[str, Any]] = {"streams": 8}

    def prepare(self) -> Path:
        return self.work.images.tfrecord()

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        port = servers.free_port()
        command = command_line(
            *(BUILD / PROGRAM, "serve", "--address", node.address, "--port", port),
            *("--streams", self.settings["streams"], "--epochs", self.work.passes),
            sorted(self.work.images.tfrecord().iterdir()),
        )
        log = self.work.scratch / "raw-tcp-serve.log"
        with Background(command, log, popen=node.popen) as server:
            server.wait_for_output("listening on")
            yield {"address": node.address, "port": port}

    def read(self, node: Node, service: Service, marks: Marks) -> dict[str, Any]:
        command = command_line(
            *(BUILD / PROGRAM, "read", "--address", service["address"], "--port", service["port"]),
            *("--streams", self.settings["streams"], "--batch-size", BATCH_SIZE),
        )
        log = self.work.scratch / "raw-tcp-read.log"
        output = run_command(node, command, log, self.work, marks)
        received = json.loads(output.text)
        wanted = self.work.images.total_bytes * self.work.passes
        if not output.is_cut and received["payload_bytes"] != wanted:
            raise BenchmarkError(f"{received['payload_bytes']} bytes came instead of {wanted}")
        return {
            "ended_by": output.ended_by,
            "images": received["records"],
            "batches": received["batches"],
            "bytes": received["payload_bytes"],
            "seconds": received["seconds"],
            "first_batch_s": received["first_batch_s"],
            "epoch_seconds": received["epoch_seconds"],
        }
