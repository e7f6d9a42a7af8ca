# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The EMLIO paper's design (arXiv 2508.11035) in plain Python: both halves, as a yardstick.

The daemon maps TFRecord shards, packs batches of raw records with msgpack and pushes them over one
ZeroMQ PUSH socket for each of T threads, high-water mark 16. A receiver thread pulls and unpacks
them into a bounded queue, from which the trainer takes them. It does less work than EMLIO: no
shuffling, no checksums, no order, no resuming.

Tuned as far as the design goes: record boundaries are known before anything is sent, records are
packed from the mapping without a copy of their own, one packer for each thread keeps its memory,
messages enter and leave ZeroMQ without a copy. The best T differs by machine and round-trip time.
"""

import mmap
import queue
import struct
import threading
from collections.abc import Iterator, Sequence

import msgpack
import zmq

HIGH_WATER_MARK = 16
Records = Sequence[memoryview]


def map_records(path: str) -> list[memoryview]:
    """The payloads of a shard, as views of its mapping."""
    with open(path, "rb") as file:
        mapping = mmap.mmap(
            file.fileno(), 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ
        )
    view = memoryview(mapping)
    records = []
    at = 0
    while at < len(view):
        (size,) = struct.unpack_from("<Q", view, at)
        records.append(view[at + 12 : at + 12 + size])
        at += 16 + size
    return records


class Sender:
    """The storage node of one run: T threads, each with a socket and its share of the records."""

    def __init__(
        self,
        records: Records,
        address: str,
        *,
        threads: int,
        batch_size: int,
        epochs: int,
        high_water_mark: int = HIGH_WATER_MARK,
    ) -> None:
        self.endpoints: list[str] = []
        self._batch_size = batch_size
        self._epochs = epochs
        self._context = zmq.Context()
        self._go = threading.Event()
        self._threads = []
        share = -(-len(records) // threads)
        for i in range(threads):
            socket = self._context.socket(zmq.PUSH)
            socket.setsockopt(zmq.SNDHWM, high_water_mark)
            socket.setsockopt(zmq.LINGER, -1)
            socket.bind(f"tcp://{address}:*")
            self.endpoints.append(socket.getsockopt_string(zmq.LAST_ENDPOINT))
            mine = records[i * share : (i + 1) * share]
            self._threads.append(threading.Thread(target=self._send, args=(socket, mine)))
            self._threads[-1].start()

    def _send(self, socket: "zmq.Socket[bytes]", records: Records) -> None:
        packer = msgpack.Packer(buf_size=1 << 20)
        self._go.wait()
        for epoch in range(self._epochs):
            for begin in range(0, len(records), self._batch_size):
                batch = records[begin : begin + self._batch_size]
                socket.send(packer.pack({"epoch": epoch, "records": batch}), copy=False)
        socket.send(packer.pack({"end": True}))
        socket.close()

    def run(self) -> None:
        """Sends everything; returns when the last message has left."""
        self._go.set()
        for thread in self._threads:
            thread.join()
        self._context.term()


class Receiver:
    """The compute node of one run."""

    def __init__(self, high_water_mark: int = HIGH_WATER_MARK) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.setsockopt(zmq.RCVHWM, high_water_mark)
        self._queue: queue.Queue[list[bytes] | None] = queue.Queue(high_water_mark)
        self._senders = 0

    def connect(self, endpoints: Sequence[str]) -> None:
        for endpoint in endpoints:
            self._socket.connect(endpoint)
        self._senders = len(endpoints)
        threading.Thread(target=self._receive).start()

    def _receive(self) -> None:
        ended = 0
        while ended < self._senders:
            frame = self._socket.recv(copy=False)
            message = msgpack.unpackb(frame.buffer, max_bin_len=1 << 31)
            if "end" in message:
                ended += 1
            else:
                self._queue.put(message["records"])
        self._queue.put(None)
        self._socket.close()

    def batches(self) -> Iterator[list[bytes]]:
        """All batches, as they come."""
        while (batch := self._queue.get()) is not None:
            yield batch

    def close(self) -> None:
        self._context.term()
