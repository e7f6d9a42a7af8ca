# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of a tool that measures energy, and what it answers."""

import contextlib
import json
import subprocess
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmarks.energy_truth.scenarios import Part
from benchmarks.peers.environments import Environments
from benchmarks.processes import BenchmarkError

REQUIREMENTS = Path(__file__).parent / "requirements"
ALL_PARTS: frozenset[Part] = frozenset({"cpu", "dram", "gpu"})
JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Reading:
    """What a tool answered: joules of the parts that it has numbers for, and its window.

    `begin_s` is taken right before the tool is told to begin, `end_s` right before it is told to
    end; `seconds` is the length that the tool itself says, where it says one.
    """

    parts: Mapping[Part, float]
    begin_s: float = 0.0
    end_s: float = 0.0
    seconds: float | None = None
    headline: float | None = None  # a total that the tool itself shows, in joules
    said: str = ""  # all that it told its user
    failed: bool = False  # it ended with an error

    def window(self) -> tuple[float, float]:
        """The time that the answer is about: of the tool's own length, up to its end."""
        begin = self.begin_s if self.seconds is None else self.end_s - self.seconds
        return begin, self.end_s


@dataclass(frozen=True)
class Installed:
    """What is on this machine."""

    environments: Environments
    emlio: Path


class Tool(ABC):
    """Something that measures energy, with the settings that its documentation shows.

    A tool is a file: the class says how it is run and what its answer means. Where it is a library,
    the same file is the program that uses it, in the environment of that library.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    settings: ClassVar[str]  # for people: how it is called
    package: ClassVar[str] = ""  # on PyPI; the environment is called `name`
    covers: ClassVar[frozenset[Part]] = ALL_PARTS  # what it says that it measures
    lead_s: ClassVar[float] = 15.0  # its window has surely begun so long after its start

    def __init__(self, installed: Installed) -> None:
        self.installed = installed

    def missing(self) -> str:
        """What has to be installed before; empty when nothing is."""
        if self.package and not self.installed.environments.is_installed(self.name):
            return f"environment {self.name}: run --install"
        return ""

    def version(self) -> str:
        return self.installed.environments.versions(self.name)[self.package]

    def program(self, name: str) -> str:
        """A program of the tool's environment."""
        return str(self.installed.environments.python(self.name).with_name(name))

    def command(self, scratch: Path) -> list[str]:
        """What is run on the host; `scratch` is an empty folder."""
        return [self.program("python"), "-P", "-m", type(self).__module__, str(scratch)]

    def reading(self, done: "subprocess.CompletedProcess[str]", scratch: Path) -> Reading:
        """The answer in what a run has printed, and written to `scratch`.

        Raises:
            BenchmarkError: it has ended well and says nothing.
        """
        return reading_of(done)


def reading_of(done: "subprocess.CompletedProcess[str]") -> Reading:
    """The answer of a program that calls `answer`; without any part when the program failed."""
    said = f"{done.stdout}\n{done.stderr}".strip()
    for line in reversed(done.stdout.splitlines()):
        with contextlib.suppress(ValueError, TypeError):
            return Reading(**json.loads(line), said=said)
    if done.returncode == 0:
        raise BenchmarkError(f"no answer in what it printed: {said[-2000:]}")
    return Reading({}, said=said, failed=True)


def answer(
    parts: Mapping[Part, float],
    begin_s: float,
    end_s: float,
    seconds: float | None = None,
    headline: float | None = None,
) -> None:
    """Prints a reading for `reading_of`."""
    reading = {"parts": parts, "begin_s": begin_s, "end_s": end_s, "seconds": seconds}
    print("\n" + json.dumps({**reading, "headline": headline}), flush=True)
