# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""TFRecord shards and tf.train.Example records, written from the formats and not by EMLIO."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

Values = Sequence[int] | Sequence[float] | Sequence[bytes]


def _crc32c_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc32c_table()


def masked_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """A payload as it lies in a TFRecord file."""
    length = struct.pack("<Q", len(payload))
    return b"".join(
        (
            length,
            struct.pack("<I", masked_crc32c(length)),
            payload,
            struct.pack("<I", masked_crc32c(payload)),
        )
    )


def write_shard(path: Path, payloads: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(map(frame, payloads)))
    return path


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def int64_list(values: Sequence[int], packed: bool = True) -> bytes:
    if packed:
        return field(3, field(1, b"".join(map(varint, values))))
    return field(3, b"".join(varint(1 << 3) + varint(value) for value in values))


def float_list(values: Sequence[float], packed: bool = True) -> bytes:
    if packed:
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(2, b"".join(varint(1 << 3 | 5) + struct.pack("<f", value) for value in values))


def bytes_list(values: Sequence[bytes]) -> bytes:
    return field(1, b"".join(field(1, value) for value in values))


def example(features: Mapping[str, bytes]) -> bytes:
    """A tf.train.Example of encoded features (int64_list and so on)."""
    entries = (
        field(1, field(1, name.encode()) + field(2, feature)) for name, feature in features.items()
    )
    return field(1, b"".join(entries))


def labelled(number: int, size: int = 20) -> bytes:
    """An Example with the features "id" (int64), "payload" (bytes) and "weight" (float)."""
    return example(
        {
            "id": int64_list([number]),
            "payload": bytes_list([bytes([number % 251]) * size]),
            "weight": float_list([number / 2]),
        }
    )


FEATURES = {"payload": "bytes", "id": "int64", "weight": "float"}


def write_labelled(folder: Path, records: int, shards: int = 4, size: int = 20) -> Path:
    """Shards "s-0.tfrecord", ... with `labelled` records 0 to records-1 in manifest order."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        first, end = records * shard // shards, records * (shard + 1) // shards
        payloads = (labelled(number, size) for number in range(first, end))
        write_shard(folder / f"s-{shard}.tfrecord", payloads)
    return folder
