# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A client written from src/emlio/wire/PROTOCOL.md alone: pyzmq, msgpack and nothing of EMLIO.

Reads one epoch as rank 0 of 1: python minimal_client.py tcp://HOST:PORT DATASET BATCH
"""

import argparse
import secrets
import struct
import time
from typing import Any

import msgpack
import zmq

HELLO, WELCOME, DESCRIBE, PAGE, OPEN, OPENED, JOIN, CHUNK = 1, 2, 3, 4, 6, 7, 8, 9
GRANT, SKIP, ERROR, EPOCH_END, PING, CLOSE = 10, 12, 13, 14, 15, 17
CRC_TABLE = list(range(256))
for _ in range(8):
    CRC_TABLE = [crc >> 1 ^ (0x82F63B78 if crc & 1 else 0) for crc in CRC_TABLE]


class RemoteError(Exception):
    """An Error or a Skip of the daemon; args are its code and its text."""


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def u32s(data: bytes) -> list[int]:
    return [value for (value,) in struct.iter_unpack("<I", data)]


class Client:
    def __init__(self, endpoint: str, streams: int, timeout_s: float = 10) -> None:
        self.timeout_s, self.context, self.poller = timeout_s, zmq.Context(), zmq.Poller()
        self.sockets = [self.context.socket(zmq.DEALER) for _ in range(1 + streams)]
        for socket in self.sockets:
            socket.setsockopt(zmq.RECONNECT_IVL, -1)
            socket.setsockopt(zmq.LINGER, 1000)
            socket.connect(endpoint)
            self.poller.register(socket, zmq.POLLIN)

    def close(self) -> None:
        self.context.destroy()

    def send(self, kind: int, connection: int = 0, /, **fields: Any) -> None:
        """Sends on the control connection, 0, or on that of stream `connection` - 1."""
        self.sockets[connection].send(msgpack.packb({"t": kind, **fields}))

    def receive(self) -> list[tuple[dict[str, Any], bytes]]:
        """The next messages of all connections, as header and payload."""
        heard = time.monotonic()
        while not (ready := self.poller.poll(2000)):
            if time.monotonic() - heard > self.timeout_s:
                raise TimeoutError("the daemon is silent")
            self.send(PING, nonce=0)
        frames = [socket.recv_multipart() for socket, _ in ready]
        messages = [(msgpack.unpackb(f[0]), f[1] if len(f) > 1 else b"") for f in frames]
        for header, _ in messages:
            if header["t"] == ERROR:
                raise RemoteError(header["code"], header.get("text", ""))
        return messages

    def ask(self, answer: int, kind: int, **fields: Any) -> dict[str, Any]:
        """Sends on control before anything streams, and waits for that answer."""
        self.send(kind, **fields)
        while True:
            for header, _ in self.receive():
                if header["t"] == answer:
                    return header

    def describe(self, dataset: str) -> tuple[bytes, int]:
        """Digest of the manifest and number of records."""
        page = self.ask(PAGE, DESCRIBE, dataset=dataset)
        records = sum(row[1] for row in page["shards"])
        while page["page"] + 1 < page["pages"]:
            for page, _ in (m for m in self.receive() if m[0]["t"] == PAGE):
                records += sum(row[1] for row in page["shards"])
        return page["digest"], records


def read_epoch(
    endpoint: str,
    dataset: str,
    batch: int,
    streams: int = 4,
    credit: int = 8 << 20,
    skipped: dict[tuple[int, int], dict[str, Any]] | None = None,
    **fields: Any,
) -> dict[tuple[int, int], bytes]:
    """The payload of every (step, slot) of an epoch, except those that go to `skipped`.

    `fields` change those of Open; `shuffle` are the columns of its source from there on.
    """
    client = Client(endpoint, streams)
    try:
        client.ask(WELCOME, HELLO, min=1, max=1, agent="minimal_client")
        digest, records = client.describe(dataset)
        shuffle, plan = fields.pop("shuffle", (0,)), fields.pop("plan", bytes(16))
        request = {"seed": 0, "tail": 1, "rank": 0, "world": 1, "epoch": 0, "step": 0, **fields}
        ident, epoch, oldest = secrets.randbits(64) or 1, request["epoch"], request["step"]
        request |= {"dataset": dataset, "batch": batch, "plan": plan, "epochs": 1}
        request |= {"sources": [[digest, 1, *shuffle]], "streams": streams, "credit": credit}
        steps = client.ask(OPENED, OPEN, id=ident, **request)["steps"]
        for stream in range(streams):
            client.send(JOIN, 1 + stream, id=ident, stream=stream, gen=0, seq=0)

        padded = request["tail"] == 2
        missing = {
            s: batch if padded else min(batch, records - s * batch) for s in range(oldest, steps)
        }
        filled: dict[tuple[int, int], bytes] = {}
        pieces: dict[tuple[int, int], dict[int, bytes]] = {}
        flow_ends: dict[int, int] = {}
        received = [0] * streams
        consumed, ended = 0, False

        def fill(key: tuple[int, int], payload: bytes, crc: int) -> None:
            if key in filled:
                return
            if crc32c(payload) != crc:
                raise ValueError(f"checksum of step {key[0]}, slot {key[1]}")
            filled[key] = payload
            missing[key[0]] -= 1

        while not ended or oldest < steps:
            for header, payload in client.receive():
                if header.get("id") != ident:
                    continue
                ended = ended or header["t"] == EPOCH_END
                if header["t"] not in (CHUNK, SKIP):
                    continue
                step, at = header["step"], 0
                flow_ends[step] = max(flow_ends.get(step, 0), header.get("end", 0))
                if header["t"] == SKIP:
                    if skipped is None:
                        raise RemoteError(header["code"], header.get("text", ""))
                    if (step, header["slot"]) not in filled | skipped:
                        skipped[step, header["slot"]] = header
                        missing[step] -= 1
                else:
                    received[header["stream"]] = header["seq"]
                    slots, sizes, crcs = (u32s(header[key]) for key in ("slots", "sizes", "crcs"))
                if header.get("total", 0) > 0:
                    parts = pieces.setdefault((step, slots[0]), {})
                    parts[header.get("offset", 0)] = payload
                    if sum(map(len, parts.values())) == header["total"]:
                        whole = b"".join(parts[offset] for offset in sorted(parts))
                        fill((step, slots[0]), whole, crcs[0])
                        del pieces[step, slots[0]]
                elif header["t"] == CHUNK:
                    for slot, size, crc in zip(slots, sizes, crcs, strict=True):
                        fill((step, slot), payload[at : at + size], crc)
                        at += size
                if missing[step] == 0:
                    while oldest < steps and missing[oldest] == 0:
                        consumed, oldest = flow_ends[oldest], oldest + 1
                    grant = {"limit": consumed + credit, "epoch": epoch, "step": oldest}
                    acks = [[i, 0, seq] for i, seq in enumerate(received) if seq > 0]
                    client.send(GRANT, id=ident, acks=acks, **grant)
        client.send(CLOSE, id=ident)
        return filled
    finally:
        client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint")
    parser.add_argument("dataset")
    parser.add_argument("batch", type=int)
    arguments = parser.parse_args()
    for (step, slot), payload in sorted(read_epoch(**vars(arguments)).items()):
        print(step, slot, len(payload))


if __name__ == "__main__":
    main()
