#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""One pass over emlio.Loader: what a batch costs in Python beside the wait for data.

Prints one JSON object. With --pause-ms it is a training loop that is slower than the data, so that
the buffers of both ends fill up.
"""

import argparse
import json
import sys
import time

import emlio


def main() -> int:
    parser = argparse.ArgumentParser(description="Time of a batch in Python beside the wait.")
    parser.add_argument("source", help="records of `emlio convert synthetic`")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--batches", type=int, default=0, help="stop after so many; 0: all")
    parser.add_argument("--pause-ms", type=float, default=0, help="sleep so long for each batch")
    parser.add_argument("--raw", action="store_true", help="records that are not Examples")
    args = parser.parse_args()

    features = {} if args.raw else {"id": "int64", "data": "bytes"}
    batches = records = 0
    with emlio.Loader(
        args.source, batch_size=args.batch_size, features=features, shuffle="full"
    ) as loader:
        begin = wait_s = 0.0
        for batch in loader:
            columns = [batch[name] for name in features] or [batch.records]
            records += len(columns[0])
            batches += 1
            if batches == args.batches:
                break
            if batches == 1:  # opening and importing NumPy come once, not with every batch
                begin, wait_s = time.perf_counter(), loader.stats()["wait_s"]
            if args.pause_ms > 0:
                time.sleep(args.pause_ms / 1000)
        seconds = time.perf_counter() - begin
        wait_s = loader.stats()["wait_s"] - wait_s
    result = {
        "batches": batches,
        "records": records,
        "seconds": seconds,
        "wait_s": wait_s,
        "us_per_batch": (seconds - wait_s) / max(1, batches - 1) * 1e6,
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
