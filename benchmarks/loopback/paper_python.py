#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The EMLIO paper's design (arXiv 2508.11035) in plain Python, as a yardstick.

A daemon process maps TFRecord shards, packs batches of raw records with msgpack and pushes them
over one ZeroMQ PUSH socket for each of T threads, high-water mark 16. A receiver thread pulls and
unpacks them into a bounded queue, from which the main thread takes them. It does less work than
EMLIO: no shuffling, no checksums, no order, no resuming.

Tuned as far as the design goes: record boundaries are known before the clock starts, records are
packed from the mapping without a copy of their own, one packer for each thread keeps its memory,
messages enter and leave ZeroMQ without a copy. The best T differs by machine; `run` tries several.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import queue
import resource
import signal
import socket as socketlib
import struct
import sys
import threading
import time
from collections.abc import Iterator

import msgpack
import zmq

DEADLINE_S = 120  # a run that has not ended by then is stuck: the alarm ends both processes


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


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


def batches(records: list[memoryview], size: int) -> Iterator[list[memoryview]]:
    for begin in range(0, len(records), size):
        yield records[begin : begin + size]


def send_thread(
    socket: zmq.Socket[bytes],
    records: list[memoryview],
    args: argparse.Namespace,
    go: threading.Event,
) -> None:
    packer = msgpack.Packer(buf_size=1 << 20)
    go.wait()
    for epoch in range(args.epochs):
        for batch in batches(records, args.batch_size):
            socket.send(packer.pack({"epoch": epoch, "records": batch}), copy=False)
    socket.send(packer.pack({"end": True}))
    socket.close()


def daemon(control: socketlib.socket, args: argparse.Namespace) -> None:
    """The storage node: returns once everything has been sent."""
    records = [record for path in args.shards for record in map_records(path)]
    share = -(-len(records) // args.threads)
    context = zmq.Context()
    go = threading.Event()
    endpoints = []
    threads = []
    for i in range(args.threads):
        socket = context.socket(zmq.PUSH)
        socket.setsockopt(zmq.SNDHWM, args.high_water_mark)
        socket.setsockopt(zmq.LINGER, -1)
        socket.bind("tcp://127.0.0.1:*")
        endpoints.append(socket.getsockopt_string(zmq.LAST_ENDPOINT))
        mine = records[i * share : (i + 1) * share]
        threads.append(threading.Thread(target=send_thread, args=(socket, mine, args, go)))
        threads[-1].start()
    control.send(json.dumps(endpoints).encode())
    control.recv(1)
    cpu_begin = cpu_seconds()
    go.set()
    for thread in threads:
        thread.join()
    context.term()  # returns when all messages have gone out
    control.send(json.dumps(cpu_seconds() - cpu_begin).encode())


def receive_thread(
    socket: zmq.Socket[bytes], out: queue.Queue[list[bytes] | None], threads: int
) -> None:
    while threads > 0:
        frame = socket.recv(copy=False)
        message = msgpack.unpackb(frame.buffer, max_bin_len=1 << 31)
        if "end" in message:
            threads -= 1
        else:
            out.put(message["records"])
    out.put(None)
    socket.close()


def receive(control: socketlib.socket, args: argparse.Namespace) -> dict[str, float]:
    """The compute node: takes all batches and returns what both ends measured."""
    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    socket.setsockopt(zmq.RCVHWM, args.high_water_mark)
    for endpoint in json.loads(control.recv(1 << 16)):
        socket.connect(endpoint)
    received: queue.Queue[list[bytes] | None] = queue.Queue(args.high_water_mark)
    thread = threading.Thread(target=receive_thread, args=(socket, received, args.threads))
    thread.start()
    records = payload_bytes = 0
    begin, cpu_begin = time.perf_counter(), cpu_seconds()
    control.send(b"g")
    while (batch := received.get()) is not None:
        records += len(batch)
        payload_bytes += sum(map(len, batch))
    seconds, cpu_s = time.perf_counter() - begin, cpu_seconds() - cpu_begin
    thread.join()
    context.term()
    return {
        "records": records,
        "payload_bytes": payload_bytes,
        "seconds": seconds,
        "client_cpu_s": cpu_s,
        "server_cpu_s": json.loads(control.recv(1 << 16)),
        "threads": args.threads,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description="The EMLIO paper's design in plain Python; prints one JSON object."
    )
    parser.add_argument("shards", nargs="+", metavar="SHARD")
    parser.add_argument("--threads", type=int, default=1, help="T: send threads, a stream each")
    parser.add_argument("--batch-size", type=int, default=64, help="records of a message")
    parser.add_argument("--high-water-mark", type=int, default=16, help="messages of a socket")
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()

    client_end, server_end = socketlib.socketpair(socketlib.AF_UNIX, socketlib.SOCK_SEQPACKET)
    server = os.fork()  # before any thread and any ZeroMQ context exists
    signal.alarm(DEADLINE_S)
    if server == 0:
        client_end.close()
        code = 1
        try:
            daemon(server_end, args)
            code = 0
        finally:
            os._exit(code)
    server_end.close()
    result = receive(client_end, args)
    _, status = os.waitpid(server, 0)
    print(json.dumps(result))
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
