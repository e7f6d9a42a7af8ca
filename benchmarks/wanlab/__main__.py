# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of the laboratory; benchmarks/wanlab/run starts it."""

import argparse
import contextlib
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.report import environment
from benchmarks.wanlab.lab import Lab, LabError, NotPermittedError
from benchmarks.wanlab.self_check import self_check
from benchmarks.wanlab.settings import Direction, Link, NodeSettings, Topology, symmetric_link

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_VOID = 3
EXIT_NOT_PERMITTED = 77

EXAMPLES = """
In COMMAND and in --serve, {storage} stands for the address of the storage node and {compute} for
that of the compute node on the first link; {storage1}, {compute1}, ... for the others.

examples:
  benchmarks/wanlab/run --rtt-ms 30 --rate-mbit 5000 --self-check
  benchmarks/wanlab/run --rtt-ms 30 --serve 'iperf3 -s -1' -- iperf3 -c {storage} -R -P 8
  benchmarks/wanlab/run --rtt-ms 100 --to-storage '{"rate_mbit": 50}' -- sh

exit codes: that of COMMAND; 1 the laboratory failed, 2 wrong options, 3 void: the link is not what
it is set to, 77 the system permits no such laboratory
"""


def _override(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
        Direction(**fields)
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(f"not an object of Direction's fields: {error}") from None
    result: dict[str, Any] = fields
    return result


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/wanlab/run",
        description="Runs a command on an emulated wide-area link.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    link = parser.add_argument_group("link, both ways alike")
    link.add_argument("--rtt-ms", type=float, default=0.0, help="round-trip time (default 0)")
    link.add_argument("--rate-mbit", type=float, default=0.0, help="0: no limit (default)")
    link.add_argument("--loss", type=float, default=0.0, metavar="PERCENT")
    link.add_argument("--jitter-ms", type=float, default=0.0, help="of each way")
    link.add_argument("--reorder", type=float, default=0.0, metavar="PERCENT")
    link.add_argument("--reorder-by-ms", type=float, default=1.0)
    link.add_argument("--queue-bytes", type=int, help="default: a round trip, at least 1 MiB")
    link.add_argument("--queue-packets", type=int)
    link.add_argument("--mtu", type=int, default=1500)
    link.add_argument(
        "--to-compute", type=_override, default={}, metavar="JSON", help="changes this direction"
    )
    link.add_argument("--to-storage", type=_override, default={}, metavar="JSON")
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument("--storage", type=int, default=1, metavar="N", help="storage nodes")
    nodes.add_argument("--compute", type=int, default=1, metavar="N", help="compute nodes")
    nodes.add_argument("--congestion", help="cubic, bbr, ... (default: the system's)")
    nodes.add_argument("--tcp-wmem", metavar="'MIN DEFAULT MAX'")
    nodes.add_argument("--tcp-rmem", metavar="'MIN DEFAULT MAX'")
    parser.add_argument("--backend", choices=["auto", "netem", "emulator"], default="auto")
    parser.add_argument("--seed", type=int, default=1, help="of losses, jitter and reordering")
    parser.add_argument("--self-check", action="store_true", help="measure the links first")
    parser.add_argument("--json", type=Path, metavar="FILE", help="settings, checks, statistics")
    parser.add_argument("--serve", action="append", default=[], help="runs in every storage node")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="runs in compute node 0")
    options = parser.parse_args(arguments)
    if not options.self_check and not options.command:
        parser.error("give a COMMAND, --self-check, or both")
    if options.storage > 1 and options.compute > 1:
        parser.error("several storage nodes or several compute nodes, not both")
    return options


def topology_of(options: argparse.Namespace) -> Topology:
    link = symmetric_link(
        options.rtt_ms,
        options.mtu,
        rate_mbit=options.rate_mbit,
        loss_percent=options.loss,
        jitter_ms=options.jitter_ms,
        reorder_percent=options.reorder,
        reorder_by_ms=options.reorder_by_ms,
        queue_bytes=options.queue_bytes,
        queue_packets=options.queue_packets,
    )
    link = Link(
        replace(link.to_compute, **options.to_compute),
        replace(link.to_storage, **options.to_storage),
        link.mtu,
    )
    settings = NodeSettings(options.congestion, options.tcp_wmem, options.tcp_rmem)
    if options.storage > 1:
        return Topology.many_storage([link] * options.storage).with_nodes(settings)
    return Topology.many_compute([link] * options.compute).with_nodes(settings)


def _addresses(lab: Lab) -> dict[str, str]:
    """What stands for which address in commands."""
    addresses = {}
    for kind, nodes in (("storage", lab.storage), ("compute", lab.compute)):
        for number, node in enumerate(nodes):
            addresses[f"{{{kind}{number}}}"] = lab.address_of(node)
        addresses[f"{{{kind}}}"] = lab.address_of(nodes[0])
    return addresses


def _run_command(lab: Lab, options: argparse.Namespace) -> int:
    def filled(words: Sequence[str]) -> list[str]:
        result = list(words)
        for name, address in _addresses(lab).items():
            result = [word.replace(name, address) for word in result]
        return result

    for command in options.serve:
        for node in lab.storage:
            node.popen(filled(shlex.split(command)), stdout=sys.stderr)
    if options.serve:
        time.sleep(0.3)  # nobody knows when a server that we know nothing of is ready
    process = lab.compute[0].popen(filled(options.command), stdin=None, start_new_session=False)
    try:
        return process.wait()
    except KeyboardInterrupt:
        return process.wait()


def main(arguments: Sequence[str]) -> int:
    """Runs one laboratory; returns the exit code."""
    options = parse(arguments)
    report: dict[str, Any] = {"options": {k: str(v) for k, v in vars(options).items()}}
    status = 0
    lab = Lab(topology_of(options), options.backend, options.seed)
    try:
        with lab:
            report |= {"backend": lab.backend, "priority": lab.priority}
            print(f"wanlab: {lab.backend}, priority {lab.priority}", file=sys.stderr)
            if options.self_check:
                verdicts = [self_check(lab, i) for i in range(len(lab.topology.links))]
                report["self_check"] = [verdict.to_json() for verdict in verdicts]
                for number, verdict in enumerate(verdicts):
                    print(f"link {number}:\n{verdict.table()}")
                if not all(verdict.ok for verdict in verdicts):
                    print("wanlab: void: a link is not what it is set to", file=sys.stderr)
                    status = EXIT_VOID
            if options.command and status == 0:
                status = _run_command(lab, options)
    except NotPermittedError as error:
        print(f"wanlab: {error}", file=sys.stderr)
        return EXIT_NOT_PERMITTED
    except (LabError, subprocess.SubprocessError) as error:
        print(f"wanlab: {error}", file=sys.stderr)
        return EXIT_FAILED
    report["statistics"] = lab.final_statistics
    report["environment"] = environment({})
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return status


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
