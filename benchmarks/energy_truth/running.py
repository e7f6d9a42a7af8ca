# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a tool on the host of a scenario, in namespaces of its own."""

import contextlib
import functools
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.energy_truth.host import HOST_FAILED, stood_file
from benchmarks.energy_truth.scenarios import Scenario
from benchmarks.energy_truth.tool import Reading, Tool
from benchmarks.energy_truth.work import TOO_LATE
from benchmarks.processes import BenchmarkError
from benchmarks.report import REPOSITORY

LIMIT_S = 120.0
# Counters that stand still for longer are no reference: 0.7 % of the shortest window.
MAX_STOOD_S = 0.04
TRIES = 5
NVML = "src/emlio/energy/stubs/libnvidia-ml.so.1"


@functools.cache
def namespaces() -> tuple[str, ...]:
    """The command before a command that gets a mount and a network namespace.

    Root's own ones where there is root, which may count events of the power PMU in them; else those
    of a user namespace.

    Raises:
        BenchmarkError: there are none here; the message has the reason.
    """
    said = "not Linux"
    for user in ([], ["--user", "--map-root-user"]):
        command = ("unshare", *user, "--mount", "--net")
        done = subprocess.run([*command, "true"], capture_output=True, text=True)
        if done.returncode == 0:
            return command
        said = done.stderr.strip()
    raise BenchmarkError(
        f"no mount namespaces here ({said}): run as root, or allow user namespaces "
        "(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces; in a container: "
        "a seccomp profile that has unshare and mount)"
    )


def stand_in_for_nvml() -> Path:
    """The newest one that is built, other than for a sanitizer; builds it where there is none."""
    places = [REPOSITORY / "build" / preset / NVML for preset in ("release", "dev")]
    built = [place for place in places if place.exists()]
    if built:
        return max(built, key=lambda place: place.stat().st_mtime)
    for command in (
        ["cmake", "--preset", "release"],
        ["cmake", "--build", "--preset", "release", "--target", "emlio_stub_nvml"],
    ):
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        if done.returncode != 0:
            raise BenchmarkError(f"{' '.join(command)}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return places[0]


class TooBusyError(BenchmarkError):
    """The machine did not let the counters move as they should."""


def on_host(
    scenario: Scenario,
    lead_s: float,
    command: Sequence[str],
    prefix: Sequence[str] | None = None,
    max_stood_s: float = math.inf,
) -> "subprocess.CompletedProcess[str]":
    """Runs a command on a host of the scenario.

    Raises:
        TooBusyError: it ran, and the counters stood still for longer than `max_stood_s`.
        BenchmarkError: it could not be started or did not end in time.
    """
    library = stand_in_for_nvml()
    before = namespaces() if prefix is None else prefix
    with tempfile.TemporaryDirectory(prefix="emlio-truth-") as scratch:
        # A program that some tools start to learn whether there is a driver.
        smi = Path(scratch, "bin/nvidia-smi")
        smi.parent.mkdir()
        smi.write_text("#!/bin/sh\n" + ("exit 0\n" if scenario.gpus else "exit 9\n"))
        smi.chmod(0o755)
        home = Path(scratch, "home")
        home.mkdir()
        root = Path(scratch, "root")
        root.mkdir()
        environment = {
            **{key: value for key, value in os.environ.items() if key != "EMLIO_STUB_NVML"},
            "PATH": f"{smi.parent}:{os.environ.get('PATH', '')}",
            "LD_LIBRARY_PATH": str(library.parent),
            "EMLIO_NVML_LIBRARY": str(library),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONWARNINGS": "ignore",
            "HOME": str(home),
            "NO_COLOR": "1",
        }
        host = [sys.executable, "-m", "benchmarks.energy_truth.host"]
        process = subprocess.Popen(
            [*before, *host, scenario.name, str(lead_s), str(root), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=home,
            start_new_session=True,
        )
        try:
            out, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise BenchmarkError(f"{scenario.name}: still running after {LIMIT_S:g} s") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode == HOST_FAILED:
            raise BenchmarkError(f"{scenario.name}: {errors.strip()}")
        stood_s = float(stood_file(root).read_text())
        if stood_s > max_stood_s and scenario.has_truth:
            raise TooBusyError(
                f"{scenario.name}: this machine is too busy: counters stood for {stood_s:.3f} s"
            )
        return subprocess.CompletedProcess(command, process.returncode, out, errors)


def read(tool: Tool, scenario: Scenario, tries: int = TRIES) -> Reading:
    """What a tool answers on the host of a scenario; again, where the machine was too busy.

    Raises:
        BenchmarkError: it could not be run, or what it printed cannot be understood.
    """
    with tempfile.TemporaryDirectory(prefix="emlio-truth-") as folder:
        scratch = Path(folder)
        try:
            command = tool.command(scratch)
            done = on_host(scenario, tool.lead_s, command, max_stood_s=MAX_STOOD_S)
            if TOO_LATE in done.stdout + done.stderr:
                raise TooBusyError(f"{scenario.name}: {TOO_LATE}")
        except TooBusyError as error:
            if tries == 1:
                raise
            print(f"{tool.name} on {error}; once more", file=sys.stderr, flush=True)
        else:
            return tool.reading(done, scratch)
    return read(tool, scenario, tries - 1)
