# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Where the programs of a run are started: this machine, or a host of an emulated network."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Node(Protocol):
    """A host that runs programs; its file system and process ids are those of the harness."""

    @property
    def address(self) -> str:
        """The IPv4 address under which the other nodes reach this one."""

    def popen(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        """Starts a program there; the options are those of subprocess.Popen.

        The process that it returns becomes the program itself, or passes signals on to it.
        """


@dataclass(frozen=True)
class Host:
    """A node made of its parts.

    One of benchmarks.wanlab is `Host(lab.address_of(node), node.popen)`.
    """

    address: str
    start: Callable[..., "subprocess.Popen[bytes]"]

    def popen(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        return self.start(command, **options)


LOOPBACK = Host("127.0.0.1", subprocess.Popen)
