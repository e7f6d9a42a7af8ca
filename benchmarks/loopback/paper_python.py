# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""One run of the paper's design in plain Python over loopback: both ends, each in a process."""

import argparse
import json
import os
import resource
import signal
import socket as socketlib
import sys
import time

from benchmarks.paper_design import HIGH_WATER_MARK, Receiver, Sender, map_records

DEADLINE_S = 120  # a run that has not ended by then is stuck: the alarm ends both processes


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def send(control: socketlib.socket, args: argparse.Namespace) -> None:
    """The storage node: returns once everything has been sent."""
    sender = Sender(
        [record for path in args.shards for record in map_records(path)],
        "127.0.0.1",
        threads=args.threads,
        batch_size=args.batch_size,
        epochs=args.epochs,
        high_water_mark=args.high_water_mark,
    )
    control.send(json.dumps(sender.endpoints).encode())
    control.recv(1)
    cpu_begin = cpu_seconds()
    sender.run()
    control.send(json.dumps(cpu_seconds() - cpu_begin).encode())


def receive(control: socketlib.socket, args: argparse.Namespace) -> dict[str, float]:
    """The compute node: takes all batches and returns what both ends measured."""
    receiver = Receiver(args.high_water_mark)
    receiver.connect(json.loads(control.recv(1 << 16)))
    records = payload_bytes = 0
    begin, cpu_begin = time.perf_counter(), cpu_seconds()
    control.send(b"g")
    for batch in receiver.batches():
        records += len(batch)
        payload_bytes += sum(map(len, batch))
    seconds, cpu_s = time.perf_counter() - begin, cpu_seconds() - cpu_begin
    receiver.close()
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
    parser.add_argument("--high-water-mark", type=int, default=HIGH_WATER_MARK)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()

    client_end, server_end = socketlib.socketpair(socketlib.AF_UNIX, socketlib.SOCK_SEQPACKET)
    server = os.fork()  # before any thread and any ZeroMQ context exists
    signal.alarm(DEADLINE_S)
    if server == 0:
        client_end.close()
        code = 1
        try:
            send(server_end, args)
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
