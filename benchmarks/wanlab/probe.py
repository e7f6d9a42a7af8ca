# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures what a link does, from inside its two nodes. Needs nothing but Python.

Run as a program: `probe.py MODE ARGUMENTS`. Servers print the port that they took as their first
line; everything that measures prints one line of JSON.
"""

import argparse
import contextlib
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

SEQUENCE = struct.Struct("!I")
END_OF_COUNT = 0xFFFFFFFF
PACKET_BYTES = 64
RECEIVE_BUFFER_BYTES = 8 << 20
PIECE_BYTES = 1 << 20
SILENCE_S = 3.0
SO_RCVBUFFORCE = 33  # asm-generic/socket.h; the socket module has no name for it


def announce(port: int) -> None:
    print(port, flush=True)


def report(**values: object) -> None:
    print(json.dumps(values), flush=True)


def udp_socket() -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    # Beyond what the system allows everybody: a receiver that has to wait for a core must not look
    # like a link that loses packets.
    with contextlib.suppress(OSError):
        udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    return udp


def echo_server() -> None:
    """Sends every datagram back, until it is killed."""
    udp = udp_socket()
    udp.bind(("", 0))
    announce(udp.getsockname()[1])
    while True:
        data, peer = udp.recvfrom(2048)
        udp.sendto(data, peer)


def echo(address: str, port: int, count: int, interval_s: float) -> None:
    """Sends `count` datagrams at an even pace, and reports their round-trip times."""
    udp = udp_socket()
    udp.connect((address, port))
    sent_ns: list[int] = []
    rtts_ms: dict[int, float] = {}

    def receive() -> None:
        udp.settimeout(SILENCE_S)
        try:
            while len(rtts_ms) < count:
                data = udp.recv(2048)
                now_ns = time.monotonic_ns()
                (number,) = SEQUENCE.unpack_from(data)
                rtts_ms[number] = (now_ns - sent_ns[number]) / 1e6
        except TimeoutError:
            pass

    receiver = threading.Thread(target=receive)
    receiver.start()
    begin = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begin + number * interval_s - time.monotonic()))
        sent_ns.append(time.monotonic_ns())
        udp.send(SEQUENCE.pack(number).ljust(PACKET_BYTES, b"\0"))
    receiver.join()
    report(sent=count, rtts_ms=[rtts_ms[number] for number in sorted(rtts_ms)])


def count_server() -> None:
    """Counts datagrams until the last one is announced or none comes any more."""
    udp = udp_socket()
    udp.bind(("", 0))
    announce(udp.getsockname()[1])
    received = 0
    overtaken = 0
    highest = -1
    udp.settimeout(60.0)
    try:
        while True:
            (number,) = SEQUENCE.unpack_from(udp.recv(2048))
            udp.settimeout(SILENCE_S)
            if number == END_OF_COUNT:
                udp.settimeout(0.5)  # for those that are late
                continue
            received += 1
            overtaken += number < highest
            highest = max(highest, number)
    except TimeoutError:
        pass
    report(received=received, overtaken=overtaken)


def count(address: str, port: int, packets: int, per_s: float) -> None:
    """Sends numbered datagrams at an even pace."""
    udp = udp_socket()
    udp.connect((address, port))
    begin = time.monotonic()
    for number in range(packets):
        ahead_s = begin + number / per_s - time.monotonic()
        if ahead_s > 0.0005:
            time.sleep(ahead_s)
        udp.send(SEQUENCE.pack(number).ljust(PACKET_BYTES, b"\0"))
    for _ in range(20):  # some of them will arrive
        udp.send(SEQUENCE.pack(END_OF_COUNT).ljust(PACKET_BYTES, b"\0"))
    report(sent=packets, seconds=time.monotonic() - begin)


def source() -> None:
    """Sends zeros to everyone who connects, until it is killed."""
    listener = socket.create_server(("", 0), backlog=128)
    announce(listener.getsockname()[1])

    def send(connection: socket.socket) -> None:
        piece = bytes(PIECE_BYTES)
        try:
            while True:
                connection.sendall(piece)
        except OSError:
            connection.close()

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=send, args=(connection,), daemon=True).start()


def sink(address: str, port: int, streams: int, warm_s: float, seconds: float) -> None:
    """Receives over some connections; reports what came after the first `warm_s` seconds."""
    connections = [socket.create_connection((address, port)) for _ in range(streams)]
    received = [0] * streams
    stop = threading.Event()

    def receive(number: int) -> None:
        piece = bytearray(PIECE_BYTES)
        while not stop.is_set() and (size := connections[number].recv_into(piece)):
            received[number] += size

    threads = [threading.Thread(target=receive, args=(i,), daemon=True) for i in range(streams)]
    for thread in threads:
        thread.start()
    time.sleep(warm_s)
    begin, bytes_before = time.monotonic(), sum(received)
    time.sleep(seconds)
    end, bytes_after = time.monotonic(), sum(received)
    stop.set()
    mbit = (bytes_after - bytes_before) * 8 / 1e6 / (end - begin)
    report(mbit_per_s=mbit, bytes=bytes_after - bytes_before, seconds=end - begin)


def main() -> int:
    """Runs the mode that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    modes.add_parser("echo-server")
    modes.add_parser("count-server")
    modes.add_parser("source")
    for name, arguments in {
        "echo": {"count": int, "interval_s": float},
        "count": {"packets": int, "per_s": float},
        "sink": {"streams": int, "warm_s": float, "seconds": float},
    }.items():
        mode = modes.add_parser(name)
        mode.add_argument("address")
        mode.add_argument("port", type=int)
        for argument, kind in arguments.items():
            mode.add_argument(argument, type=kind)
    options = vars(parser.parse_args())
    functions: dict[str, Callable[..., None]] = {
        "echo-server": echo_server,
        "count-server": count_server,
        "source": source,
        "echo": echo,
        "count": count,
        "sink": sink,
    }
    functions[options.pop("mode")](**options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
