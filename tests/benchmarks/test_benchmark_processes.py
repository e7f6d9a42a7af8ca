# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that benchmarks start: what they cost is counted, and how they fail is told."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.processes import (
    BenchmarkError,
    JsonServer,
    Sampler,
    anonymous_bytes,
    tree,
    tree_cpu_seconds,
)

BURNING_S = 0.2
BURN = f"import time\nwhile time.process_time() < {BURNING_S}: pass\n"
# A child that has ended, and one that waits for the end of its input after its work.
FAMILY = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
code = {BURN!r} + "print(flush=True)\\nimport sys\\nsys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_the_cpu_time_of_children_counts_whether_they_have_ended_or_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert tree(process.pid) == [process.pid, child]
        # The kernel counts ended children by ticks.
        assert tree_cpu_seconds(process.pid) >= 2 * BURNING_S - 2 / os.sysconf("SC_CLK_TCK")
        assert process.stdin is not None
        process.stdin.close()
    assert process.returncode == 0


def server(tmp_path: Path, code: str) -> JsonServer:
    return JsonServer([sys.executable, "-c", code], tmp_path / "program.log")


def test_every_request_gets_its_answer(tmp_path: Path) -> None:
    code = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"
    with server(tmp_path, code) as echo:
        for request in ({"a": 1}, {"b": "x" * 200_000}):
            assert echo.ask(request) == request


def test_a_server_that_ends_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with (
        server(tmp_path, "import sys\nsys.stdin.readline()\nsys.exit('out of luck')") as program,
        pytest.raises(BenchmarkError, match=r"program ended at .*out of luck"),
    ):
        program.ask({"a": 1})


def test_a_server_that_does_not_answer_is_given_up_and_ended(tmp_path: Path) -> None:
    program = server(tmp_path, "import time\ntime.sleep(600)")
    with pytest.raises(BenchmarkError, match=r"program: .* took over 0.1 s"), program:
        program.ask({"a": 1}, timeout_s=0.1)
    assert not Path(f"/proc/{program.pid}").exists()


def test_a_sampler_keeps_what_it_saw_and_when() -> None:
    looks = iter(range(1000))
    with Sampler(lambda: next(looks), 0.001) as sampler:
        while len(sampler.samples) < 3:
            time.sleep(0.001)
    seen = [value for _, value in sampler.samples]
    moments = [moment for moment, _ in sampler.samples]
    assert seen == list(range(len(seen)))
    assert moments == sorted(moments)


def test_anonymous_memory_is_what_a_process_holds_until_it_ends() -> None:
    code = "held = bytearray(b'x' * 50_000_000)\nprint(flush=True)\nimport sys\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert anonymous_bytes(process.pid) > 50_000_000
        process.communicate()
        assert anonymous_bytes(process.pid) == 0
