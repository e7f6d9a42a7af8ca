# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The EMLIO paper's design in plain Python (benchmarks/paper_design.py) over the network.

Settings. threads=8: 1 and 2 are best at 0 ms, 4 at 10 ms, 8 from 30 ms on, where one stream with
the system's stock buffers cannot fill the link. high_water_mark=16, the paper's.

Decoding: Pillow in as many threads as there are processors, as much as the design leaves open.

A planner has told both ends what is to be sent, as in the paper: the receiver asks for it before
its clock starts, and knows the endpoints then.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import servers
from benchmarks.peers.decoding import decoded_ahead
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Peer, Service
from benchmarks.peers.reading import Recorder, Task, run_action
from benchmarks.processes import Background

READY = "listening"


class PaperPython(Peer):
    name = "paper-python"
    title = "the paper's design in Python"
    environment = "paper"
    defaults: ClassVar[Mapping[str, Any]] = {"threads": 8, "high_water_mark": 16}

    def prepare(self) -> Path:
        return self.work.images.tfrecord()

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        planner = f"tcp://{node.address}:{servers.free_port()}"
        shards = [str(path) for path in sorted(self.work.images.tfrecord().iterdir())]
        command = self.python_command(
            "serve", self.task(planner=planner, shards=shards, address=node.address)
        )
        log = self.work.scratch / "paper-serve.log"
        with Background(command, log, env=self.python_environment(), popen=node.popen) as daemon:
            daemon.wait_for_output(READY)
            yield {"planner": planner}


def serve(task: Task) -> None:
    import zmq

    from benchmarks.paper_design import Sender, map_records

    records = [record for path in task["shards"] for record in map_records(path)]
    planner: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REP)
    planner.bind(task["planner"])
    print(READY, flush=True)
    while True:
        wanted = json.loads(planner.recv())
        sender = Sender(records, task["address"], **wanted)
        planner.send(json.dumps(sender.endpoints).encode())
        sender.run()


def read(task: Task) -> None:
    import zmq

    from benchmarks.paper_design import Receiver

    settings = task["settings"]
    receiver = Receiver(settings["high_water_mark"])
    planner: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
    planner.connect(task["service"]["planner"])
    wanted = {"batch_size": task["batch_size"], "epochs": task["passes"], **settings}
    planner.send(json.dumps(wanted).encode())
    endpoints = json.loads(planner.recv())
    with Recorder(task) as recorder:
        receiver.connect(endpoints)
        if task["decode"]:
            for numbers, pictures in decoded_ahead(receiver.batches()):
                recorder.add_pictures(numbers, pictures)
        else:
            for batch in receiver.batches():
                recorder.add(batch)
    receiver.close()
    planner.close()


if __name__ == "__main__":
    run_action(serve=serve, read=read)
