# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""All peers, and one run of one of them between two nodes."""

import contextlib
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.peers.dali_nfs import Dali
from benchmarks.peers.emlio_loader import EmlioLoader, EmlioPull
from benchmarks.peers.grain_nfs import Grain
from benchmarks.peers.images import ImageSet, load_into_memory
from benchmarks.peers.iperf import Iperf3
from benchmarks.peers.lit_data import LitData
from benchmarks.peers.meter import (
    MeteredNode,
    Usage,
    WireCounters,
    cpu_s_at,
    process_group,
)
from benchmarks.peers.mosaic import Mosaic
from benchmarks.peers.nginx_sendfile import Nginx
from benchmarks.peers.node import Node
from benchmarks.peers.paper_python import PaperPython
from benchmarks.peers.peer import Peer, Tools, Work
from benchmarks.peers.raw_tcp import RawTcp
from benchmarks.peers.spdl_http import Spdl
from benchmarks.peers.tf_data_service import TfDataService
from benchmarks.peers.torch_files import TorchNfs, TorchSshfs
from benchmarks.peers.web_dataset import WebDataset
from benchmarks.processes import BenchmarkError, Sampler

EVERY_S = 0.05  # memory and processor time are looked at

PEERS: Mapping[str, type[Peer]] = {
    peer.name: peer
    for peer in (
        EmlioLoader,
        EmlioPull,
        PaperPython,
        WebDataset,
        TfDataService,
        Dali,
        Grain,
        LitData,
        Mosaic,
        Spdl,
        TorchNfs,
        TorchSshfs,
        RawTcp,
        Nginx,
        Iperf3,
    )
}


def passes_for(images: ImageSet, epochs: int, least_bytes: float) -> int:
    """How often the images have to be read: so many epochs, and at least so many bytes."""
    return max(epochs, math.ceil(least_bytes / images.total_bytes))


def run_once(
    peer: str,
    images: ImageSet,
    passes: int,
    *,
    storage: Node,
    compute: Node,
    tools: Tools,
    settings: Mapping[str, Any] | None = None,
    limit_s: float = 600.0,
    watch: Callable[[str], None] | None = None,
    decode: bool = False,
    bound_s: float | None = None,
) -> dict[str, Any]:
    """Serves the images on one node and reads them on the other; what came, and what it cost.

    Args:
        peer: a name in PEERS.
        images: what is read.
        passes: how often, in one run.
        storage: where the servers run.
        compute: where the reader runs.
        tools: what is installed.
        settings: those that differ from the peer's defaults.
        limit_s: a run that takes longer is ended.
        watch: called with "ready" right before the clock starts, with "done" once it has stopped.
        decode: the trainer's side decodes images, which must be photographs, into pictures.
        bound_s: the run ends so long after the first batch, if not everything has come by then.

    Returns:
        The row that README.md describes; JSON values only.

    Raises:
        BenchmarkError: the peer did not start, failed, or did not deliver every image once a pass;
            where the run was cut, one came more often, or another than was to come.
    """
    with tempfile.TemporaryDirectory(prefix=f"emlio-{peer}-") as scratch:
        Path(scratch).chmod(0o755)  # servers that give up their rights read it
        work = Work(images, passes, Path(scratch), tools, limit_s, decode, bound_s)
        made = PEERS[peer](work, settings)
        folder = made.prepare()
        if folder is not None:
            load_into_memory(folder)
        return measured(made, storage, compute, watch=watch)


def measured(
    peer: Peer, storage: Node, compute: Node, *, watch: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Runs a peer that is prepared; its row."""
    usage: dict[str, list[Usage]] = {}
    with contextlib.ExitStack() as stack:
        groups = [stack.enter_context(process_group(name)) for name in ("storage", "compute")]
        wires = [stack.enter_context(WireCounters(node)) for node in (storage, compute)]
        memory = stack.enter_context(Sampler(lambda: [g.memory_bytes() for g in groups], EVERY_S))
        cpu = Sampler(lambda: [group.cpu_s() for group in groups], EVERY_S)
        if peer.work.bound_s is not None:
            stack.enter_context(cpu)
        metered = [
            MeteredNode(node, group) for node, group in zip((storage, compute), groups, strict=True)
        ]

        def mark(word: str) -> None:
            if watch is not None:
                watch(word)
            usage[word] = [
                Usage(group.cpu_s(), *wire.read())
                for group, wire in zip(groups, wires, strict=True)
            ]

        service = stack.enter_context(peer.serve(metered[0]))
        result = peer.read(metered[1], service, mark)
        how = groups[0].how
    if result["seconds"] <= 0 or result["bytes"] <= 0:
        raise BenchmarkError(
            f"{peer.name}: {result['bytes']} bytes came in {result['seconds']:g} s; "
            "give it more time (--run-s)"
        )
    row: dict[str, Any] = {
        "peer": peer.name,
        "settings": peer.settings,
        "decode": peer.work.decode,
        "passes": peer.work.passes,
        "images": None,
        "batches": None,
        "checksum": None,
        "first_batch_s": None,
        "epoch_seconds": None,
        "ended_by": "bytes",
        "bound_s": peer.work.bound_s,
        **result,
        "mb_per_s": result["bytes"] / result["seconds"] / 1e6,
        "counted_by": how,
    }
    if row["images"] is not None:
        row["images_per_s"] = row["images"] / row["seconds"]
    end_s = row.pop("end_s", None)
    for i, node in enumerate(("storage", "compute")):
        begin, end = usage["ready"][i], usage["done"][i]
        if row["ended_by"] == "seconds" and end_s is not None:
            # Up to the last batch: what the next one has cost already came to nothing.
            history = [(moment, values[i]) for moment, values in cpu.samples]
            end = replace(end, cpu_s=max(begin.cpu_s, cpu_s_at(history, end_s)))
        # None where nothing lived long enough to be seen: missing is not zero.
        peak = max(values[i] for _, values in memory.samples) or None
        row[node] = _difference(begin, end, row["bytes"], peak)
    return row


def _difference(
    begin: Usage, end: Usage, payload_bytes: int, peak_bytes: int | None
) -> dict[str, Any]:
    """What a node spent between two marks."""

    def carried(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else b - a

    cpu_s = end.cpu_s - begin.cpu_s
    return {
        "cpu_s": cpu_s,
        "cpu_s_per_gb": cpu_s / payload_bytes * 1e9,
        "peak_memory_bytes": peak_bytes,
        "wire_received_bytes": carried(begin.wire_received_bytes, end.wire_received_bytes),
        "wire_sent_bytes": carried(begin.wire_sent_bytes, end.wire_sent_bytes),
    }
