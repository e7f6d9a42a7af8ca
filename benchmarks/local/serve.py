# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A process that opens readers and consumes what they read, as it is told on standard input.

A request is a line of JSON, and so is its answer:

    {"open": KEY, "reader": NAME, "options": {…}}    a reader of readers.py under a key
    {"read": KEY, "passes": 1, "check": false}       what `consume` has found, or `checksums`
    {"close": KEY}

One process serves many requests, so that importing a framework is paid once and runs of several
readers can take turns.
"""

import hashlib
import json
import os
import sys
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.local.readers import READERS, Batch, Reader


def consume(batches: Iterable[Batch]) -> dict[str, Any]:
    """Looks at every byte once: what any use of the data does at least."""
    folds = []
    numbers = payload_bytes = 0
    for batch in batches:
        if batch.numbers is not None:
            numbers += int(batch.numbers.sum())
        for value in batch.values:
            folds.append(np.bitwise_xor.reduce(value))
            payload_bytes += len(value)
            del value
        del batch  # before the next one is asked for, so that its memory can be used again
    return {
        "records": len(folds),
        "payload_bytes": payload_bytes,
        "folds": int(np.array(folds, np.uint64).sum()),
        "numbers": numbers,
    }


def checksums(batches: Iterable[Batch]) -> dict[str, Any]:
    """What was read, whatever its order: differs where one record is missing, twice or damaged."""
    found = []
    for batch in batches:
        numbers = [0] * len(batch.values) if batch.numbers is None else batch.numbers.tolist()
        found += [
            (number, len(value), zlib.crc32(value.data))
            for number, value in zip(numbers, batch.values, strict=True)
        ]
    digest = hashlib.sha256(repr(sorted(found)).encode()).hexdigest()
    return {"records": len(found), "distinct": len(set(found)), "digest": digest}


def answer(readers: dict[str, Reader], request: dict[str, Any]) -> dict[str, Any]:
    if "open" in request:
        options = dict(request["options"])
        folder = Path(options.pop("folder"))
        readers[request["open"]] = READERS[request["reader"]](folder, **options)
        return {}
    if "close" in request:
        readers.pop(request["close"]).close()
        return {}
    reader = readers[request["read"]]
    if request["check"]:
        return checksums(reader)
    begin = time.perf_counter()
    passes = [consume(reader) for _ in range(request["passes"])]
    seconds = time.perf_counter() - begin
    if any(found != passes[0] for found in passes):
        raise ValueError(f"passes of {request['read']} differ: {passes}")
    return {"seconds": seconds, **passes[0]}


def main() -> int:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    readers: dict[str, Reader] = {}
    for line in sys.stdin:
        print(json.dumps(answer(readers, json.loads(line))), file=answers, flush=True)
    for reader in readers.values():
        reader.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
