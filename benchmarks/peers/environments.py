# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual environments outside the tree, for programs of which one pins what breaks another."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.processes import BenchmarkError

REQUIREMENTS = Path(__file__).parent / "requirements"
# A line that says on which other environment one is built, so that torch is not there four times.
BASE = re.compile(r"^# base: (\S+)$", re.MULTILINE)


def default_cache() -> Path:
    """Where environments and images are kept unless told otherwise."""
    if given := os.environ.get("EMLIO_PEERS_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "emlio/peers"


class Environments:
    """One environment a requirements file, below one folder."""

    def __init__(self, cache: Path, requirements: Path = REQUIREMENTS) -> None:
        self._folder = cache / "environments"
        self._requirements = requirements

    def python(self, name: str) -> Path:
        return self._folder / name / "bin/python"

    def is_installed(self, name: str) -> bool:
        """Whether the environment holds what its requirements ask for now."""
        stamp = self._folder / name / "installed"
        return stamp.exists() and stamp.read_text() == self._digest(name)

    def install(self, name: str) -> None:
        """Makes the environment unless it is there.

        Raises:
            BenchmarkError: pip's own message.
        """
        if self.is_installed(name):
            return
        base = self._base(name)
        if base is not None:
            self.install(base)
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
        if base is not None:
            _site_packages(folder).joinpath("base.pth").write_text(
                f"{_site_packages(self._folder / base)}\n"
            )
        pip = [sys.executable, "-m", "pip", "--python", str(self.python(name)), "install"]
        _run([*pip, "--quiet", "--requirement", str(self._file(name))])
        (folder / "installed").write_text(self._digest(name))

    def versions(self, name: str) -> dict[str, str]:
        """What the requirements pin."""
        pins = re.findall(r"^([\w.-]+)==(\S+)", self._file(name).read_text(), re.MULTILINE)
        return dict(pins)

    def _file(self, name: str) -> Path:
        return self._requirements / f"{name}.txt"

    def _base(self, name: str) -> str | None:
        found = BASE.search(self._file(name).read_text())
        return found.group(1) if found else None

    def _digest(self, name: str) -> str:
        base = self._base(name)
        text = self._file(name).read_text() + (self._digest(base) if base else "")
        return hashlib.sha256(text.encode()).hexdigest()


def _site_packages(environment: Path) -> Path:
    (folder,) = environment.glob("lib/python3*/site-packages")
    return folder


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()[-2000:]
        raise BenchmarkError(f"{' '.join(command)} failed: {output}")
