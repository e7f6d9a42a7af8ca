# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""tf.data service: a dispatcher and workers on the storage node, batches over gRPC.

Settings. workers=4 (worker servers, all in one process, as is usual on one host): 1 is as good at
0 ms and a quarter of it at 30 ms. max_outstanding_requests=64; 4 and 256, and AUTO compression,
made no difference that could be seen. Dynamic sharding, four files read at a time by each worker,
no order asked for, no compression (the images are compressed). Records are read, batched and sent;
nothing is parsed. Decoding is the trainer's here, as for all peers: a parallel map behind the
service (AUTOTUNE), tf.io.decode_jpeg and tf.image.resize, though the service could do it as well.

All passes are one data set that names every file so many times, since the end of an iteration is
noticed on a tick of about a second: one pass in each would be up to twice as slow.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers import servers
from benchmarks.peers.node import Node
from benchmarks.peers.peer import Peer, Service
from benchmarks.peers.reading import NUMBER_AT, NUMBER_END, SIDE, Recorder, Task, run_action
from benchmarks.processes import Background

READY = "all workers are up"
FILES_AT_A_TIME = 4
READ_BUFFER_BYTES = 8 << 20


class TfDataService(Peer):
    name = "tfdata"
    title = "tf.data service"
    environment = "tensorflow"
    defaults: ClassVar[Mapping[str, Any]] = {
        "workers": 4,
        "max_outstanding_requests": 64,
        "compression": None,
    }

    def prepare(self) -> Path:
        return self.work.images.tfrecord()

    @contextlib.contextmanager
    def serve(self, node: Node) -> Iterator[Service]:
        ports = [servers.free_port() for _ in range(1 + self.settings["workers"])]
        task = {"address": node.address, "ports": ports}
        with Background(
            self.python_command("serve", task),
            self.work.scratch / "tfdata-serve.log",
            env=self.python_environment(TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES=""),
            popen=node.popen,
        ) as server:
            server.wait_for_output(READY)
            yield {
                "dispatcher": f"grpc://{node.address}:{ports[0]}",
                "files": [str(path) for path in sorted(self.work.images.tfrecord().iterdir())],
            }


def serve(task: Task) -> None:
    import tensorflow as tf

    service = tf.data.experimental.service
    address, (first, *others) = task["address"], task["ports"]
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=first, protocol="grpc"))
    workers = [
        service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=f"{address}:{first}",
                worker_address=f"{address}:{port}",
                port=port,
            )
        )
        for port in others
    ]
    print(READY, flush=True)
    threading.Event().wait()  # until a signal ends this process
    del workers, dispatcher


def read(task: Task) -> None:
    import tensorflow as tf

    service, settings = task["service"], task["settings"]
    files = tf.data.Dataset.from_tensor_slices(service["files"] * task["passes"])
    batches = (
        files.interleave(
            lambda file: tf.data.TFRecordDataset(file, buffer_size=READ_BUFFER_BYTES),
            cycle_length=FILES_AT_A_TIME,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=False,
        )
        .batch(task["batch_size"])
        .prefetch(tf.data.AUTOTUNE)
        .apply(
            tf.data.experimental.service.distribute(
                processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
                service=service["dispatcher"],
                max_outstanding_requests=settings["max_outstanding_requests"],
                compression=settings["compression"],
            )
        )
        .prefetch(tf.data.AUTOTUNE)
    )

    def decode(image: Any) -> tuple[Any, Any]:
        number = tf.strings.substr(image, NUMBER_AT, NUMBER_END - NUMBER_AT)
        picture = tf.image.resize(tf.io.decode_jpeg(image, channels=3), (SIDE, SIDE))
        return tf.io.decode_raw(number, tf.int64)[0], tf.cast(tf.round(picture), tf.uint8)

    if task["decode"]:
        batches = (
            batches.unbatch()
            .map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
            .batch(task["batch_size"])
            .prefetch(tf.data.AUTOTUNE)
        )
    next(tf.data.Dataset.range(1).as_numpy_iterator())  # TensorFlow starts up
    with Recorder(task) as recorder:
        for batch in batches.as_numpy_iterator():
            if task["decode"]:
                recorder.add_pictures(*batch)
            else:
                recorder.add(batch)


if __name__ == "__main__":
    run_action(serve=serve, read=read)
