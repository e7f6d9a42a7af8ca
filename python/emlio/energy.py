# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The energy that a job uses: of this host, and of the hosts that its data come from.

    from emlio import energy

    with energy.measure() as run:
        with energy.window("read", epoch=3) as window:
            ...
        print(window.energy())
    print(run.report.total)

What is not known is None beside a state, a cause and what would help; it is never 0. Without any
counter everything works and says so. docs/energy.md tells what figures mean.
"""

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emlio import _core

__all__ = [
    "Energy",
    "NodeEnergy",
    "Report",
    "Run",
    "RunTotal",
    "Total",
    "Window",
    "WindowEnergy",
    "measure",
    "start",
    "stop",
    "window",
]


@dataclass(frozen=True, slots=True)
class Energy:
    """What one part of one host used.

    Attributes:
        domain: Its name: "package-0", "dram-1", "gpu-GPU-8f3a...".
        kind: "package", "dram", "gpu", ...
        source: Where it was read: "perf", "powercap", "nvml", ...; None: nowhere.
        in_total: Whether it is added to the host's total; parts that overlap are not.
        state: "measured", "integrated", "virtualised", "whole_device", or why there are no
            joules: "below_resolution", "implausible", "gap", "unavailable".
        joules: None: not known.
        uncertainty_joules: Of the window's edges and of integration.
        void_s: Time for which joules are not known.
        cause: Why there are no joules, or why they are not exactly those of the domain.
        fix: What helps.
    """

    domain: str
    kind: str
    source: str | None
    in_total: bool
    state: str
    joules: float | None
    uncertainty_joules: float | None
    void_s: float
    cause: str
    fix: str


@dataclass(frozen=True, slots=True)
class Total:
    """What one host used: only if all its parts are known.

    Attributes:
        state: The worst of its parts'.
        joules: None: not known.
        uncertainty_joules: The sum of its parts'.
        domains: Which are summed.
        missing: Those that lack joules, so that there is no sum.
        without: Those that nothing on this host counts.
    """

    state: str
    joules: float | None
    uncertainty_joules: float | None
    domains: tuple[str, ...]
    missing: tuple[str, ...]
    without: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WindowEnergy:
    """What one host used in one window.

    Attributes:
        name, stage, epoch, rank: What it is of.
        records, bytes: What was done in it, as far as whoever closed it knows.
        seconds: Its length.
        cut: It was still open when it was looked at, or when the run ended.
        total: Of the host.
        energies: Each part of the host.
    """

    name: str
    stage: str
    epoch: int | None
    rank: int | None
    records: int
    bytes: int
    seconds: float
    cut: bool
    total: Total
    energies: tuple[Energy, ...]

    def __getitem__(self, domain: str) -> Energy:
        """The part with that name."""
        for energy in self.energies:
            if energy.domain == domain:
                return energy
        raise KeyError(domain)


@dataclass(frozen=True, slots=True)
class NodeEnergy:
    """What another host used in a run.

    Attributes:
        name, endpoint, role: Which host.
        state: "whole"; "same_host": counted already; "lost", "unreachable", "refused": not known.
        cause: Why it is not whole.
        joined_late: Found while the run went on, by a loader that reads from it.
        clock: "ok", "flagged" or "refused": how far its windows can be laid beside another host's.
        clock_offset_ms: Its wall clock minus this host's, give or take clock_bound_ms; None: not
            known.
        clock_bound_ms: See there.
        synchronised: What its kernel says of its clock; None: unknown.
        energy: Of the run; None: not known.
        windows: Its own, such as what its daemon sent of each epoch ("serve").
    """

    name: str
    endpoint: str
    role: str
    state: str
    cause: str
    joined_late: bool
    clock: str
    clock_offset_ms: float | None
    clock_bound_ms: float | None
    synchronised: bool | None
    energy: WindowEnergy | None
    windows: tuple[WindowEnergy, ...]


@dataclass(frozen=True, slots=True)
class RunTotal:
    """The sum over all hosts of a run: only if all of them are known.

    Attributes:
        complete: Whether it is.
        state: "incomplete", or the worst of the hosts'.
        joules: None: not known.
        uncertainty_joules: The sum of the hosts'.
        nodes: Which are summed.
        missing: Those that lack joules, and why.
    """

    complete: bool
    state: str
    joules: float | None
    uncertainty_joules: float | None
    nodes: tuple[str, ...]
    missing: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run measured.

    Attributes:
        node: This host's name.
        total: Of all hosts.
        energy: Of this host.
        windows: Of this host, in the order of their begin: those of `window`, and one an epoch of
            every loader ("epoch").
        nodes: The other hosts.
    """

    node: str
    total: RunTotal
    energy: WindowEnergy
    windows: tuple[WindowEnergy, ...]
    nodes: tuple[NodeEnergy, ...]


def _total(told: Mapping[str, Any]) -> Total:
    return Total(
        state=told["state"],
        joules=told["joules"],
        uncertainty_joules=told["uncertainty_joules"],
        domains=tuple(told["domains"]),
        missing=tuple(told["missing"]),
        without=tuple(told["without"]),
    )


def _window(told: Mapping[str, Any]) -> WindowEnergy:
    return WindowEnergy(
        **{
            **told,
            "total": _total(told["total"]),
            "energies": tuple(Energy(**one) for one in told["energies"]),
        }
    )


def _windows(told: Sequence[Mapping[str, Any]]) -> tuple[WindowEnergy, ...]:
    return tuple(_window(one) for one in told)


def _node(told: Mapping[str, Any]) -> NodeEnergy:
    energy = told["energy"]
    return NodeEnergy(
        **{
            **told,
            "energy": None if energy is None else _window(energy),
            "windows": _windows(told["windows"]),
        }
    )


def _report(told: Mapping[str, Any]) -> Report:
    return Report(
        node=told["node"],
        total=RunTotal(**{**told["total"], "nodes": tuple(told["total"]["nodes"])}),
        energy=_window(told["energy"]),
        windows=_windows(told["windows"]),
        nodes=tuple(_node(one) for one in told["nodes"]),
    )


class Run:
    """A measurement that is going on, or that has ended. Made by `start` and `measure`.

    May be used from several threads. In a process made by fork it measures nothing, and what asks
    for figures raises UnavailableError.
    """

    def __init__(self, core: _core.EnergyRun) -> None:
        """For `start`."""
        self._core = core
        self._lock = threading.Lock()
        self._report: Report | None = None

    def add_node(self, endpoint: str) -> None:
        """Adds another host, by the address of its agent (`emlio energy agent`): "host:port".

        Storage hosts that loaders of this process read from are added by themselves.
        """
        self._core.add_node(endpoint)

    def stop(self) -> Report:
        """Ends the run and returns what it measured; again: the same."""
        with self._lock:
            if self._report is None:
                self._report = _report(self._core.stop())
            return self._report

    @property
    def report(self) -> Report:
        """What the run measured. Ends it when it is going on."""
        return self.stop()


class Window:
    """A part of a run: a context manager, which may be used once. Made by `window`."""

    def __init__(self, name: str, stage: str, epoch: int | None, rank: int | None) -> None:
        """For `window`."""
        self._label = (name, stage, -1 if epoch is None else epoch, -1 if rank is None else rank)
        self._number = 0
        self._id = 0
        self._told = 0
        self._run: Run | None = None
        self._records = 0
        self._bytes = 0

    def __enter__(self) -> "Window":
        """The window begins."""
        self._run = _current
        self._number, self._id, self._told = _core.energy_open(*self._label)
        return self

    def __exit__(self, *_: object) -> None:
        """The window ends."""
        _core.energy_close(self._number, self._records, self._bytes)

    def add(self, *, records: int = 0, bytes: int = 0) -> None:
        """Counts what is done in it."""
        self._records += records
        self._bytes += bytes

    def energy(self) -> WindowEnergy | None:
        """What the host used in it, or has used up to now; None when nothing is measured.

        Waits until the window's end was sampled: about one interval. Without a run of this process,
        under `emlio energy record`, it is asked for the figures.

        Raises:
            TimeoutError: `emlio energy record` does not answer for five seconds and an interval.
        """
        if self._run is not None and self._id != 0:
            return _window(self._run._core.report(self._id))
        told = None if self._told == 0 else _core.energy_told(self._told)
        return None if told is None else _window(told)


_current: Run | None = None
_starting = threading.Lock()


def start(
    *,
    name: str = "",
    stage: str = "",
    nodes: Sequence[str] = (),
    interval_ms: int = 100,
    gpus: Sequence[str] = (),
    connect_timeout_s: float = 10,
    root: str = "/",
    nvml_library: str = "",
    rocm_library: str = "",
) -> Run:
    """Begins to measure this host and others.

    Args:
        name: Of the run.
        stage: What it does of "R", "R+P", "R+P+T" and "T".
        nodes: Addresses of other hosts' agents, "host:port". Storage hosts that loaders of this
            process read from are added by themselves.
        interval_ms: How often counters are read, 10 to 60,000.
        gpus: UUIDs or PCI addresses; empty: all.
        connect_timeout_s: How long to wait for `nodes`; a node that does not answer makes the total
            incomplete.
        root: Where the folders sys, proc and dev are.
        nvml_library: NVIDIA's library [$EMLIO_NVML_LIBRARY, else the driver's name].
        rocm_library: AMD's library [$EMLIO_ROCM_SMI_LIBRARY, else ROCm's name].

    Raises:
        RuntimeError: One is going on already.
    """
    global _current
    with _starting:
        if _current is not None and _current._report is None:
            raise RuntimeError("energy is being measured already: call emlio.energy.stop() first")
        _current = Run(
            _core.EnergyRun(
                interval_ms=interval_ms,
                root=root,
                nvml_library=nvml_library,
                rocm_library=rocm_library,
                gpus=list(gpus),
                name=name,
                stage=stage,
                nodes=list(nodes),
                connect_timeout_ms=round(connect_timeout_s * 1000),
            )
        )
        return _current


def stop() -> Report | None:
    """Ends the run that is going on and returns what it measured; None when there is none."""
    global _current
    with _starting:
        run, _current = _current, None
    return None if run is None else run.stop()


@contextlib.contextmanager
def measure(**options: Any) -> Iterator[Run]:
    """`start` with these options, and `stop` at the end of the block."""
    run = start(**options)
    try:
        yield run
    finally:
        global _current
        with _starting:
            if _current is run:
                _current = None
        run.stop()


def window(
    name: str, *, stage: str = "", epoch: int | None = None, rank: int | None = None
) -> Window:
    """A window of the run that is going on: `with energy.window("read", epoch=3):`.

    Windows may lie inside one another and overlap. Opening and closing one costs microseconds and
    does no I/O. Without a run, and under `emlio energy record` too, it is told to whoever started
    this process so, if anybody did.
    """
    return Window(name, stage, epoch, rank)


def _end() -> None:
    # What is going on ends with the interpreter; nobody asks for its figures any more.
    global _current
    _current = None
    _core.energy_end()


def _forget() -> None:
    # The threads of the run are those of the process that this one is a fork of.
    global _current, _starting
    _current = None
    _starting = threading.Lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget)
