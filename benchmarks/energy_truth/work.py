# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What is measured: a program that waits. The counters do not depend on what it does.

As a program it prints when it began and ended, in seconds of CLOCK_MONOTONIC.
"""

import contextlib
import json
import os
import subprocess
import time

# Set by the host for all that runs on it.
SECONDS = "EMLIO_TRUTH_SECONDS"
WRAP_AT = "EMLIO_TRUTH_WRAP_AT"  # 0: none that has to lie inside
AROUND_A_WRAP_S = 1.0
TOO_LATE = "the counter wrapped before the work began"


def wait() -> tuple[float, float]:
    """Waits as long as the scenario wants; when that began and ended."""
    begin = time.monotonic()
    until = begin + float(os.environ[SECONDS])
    if wrap_at := float(os.environ[WRAP_AT]):
        if begin > wrap_at - AROUND_A_WRAP_S:
            raise SystemExit(TOO_LATE)
        until = max(until, wrap_at + AROUND_A_WRAP_S)
    while (now := time.monotonic()) < until:
        time.sleep(until - now)
    return begin, now


def printed(done: "subprocess.CompletedProcess[str]") -> tuple[float, float]:
    """When it began and ended, out of what the program, or one around it, has printed.

    Raises:
        BenchmarkError: it is not there.
    """
    from benchmarks.processes import BenchmarkError

    for line in done.stdout.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)
            return found["begin_s"], found["end_s"]
    said = f"{done.stdout}{done.stderr}".strip()[-2000:]
    raise BenchmarkError(f"the work did not run ({done.returncode}): {said}")


if __name__ == "__main__":
    begin_s, end_s = wait()
    print(json.dumps({"begin_s": begin_s, "end_s": end_s}))
