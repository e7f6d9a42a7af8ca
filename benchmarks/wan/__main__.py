# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO over emulated wide-area links, beside iperf3 on the same link.

Run it by benchmarks/wan/run. benchmarks/README.md says what is measured, and how.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import BenchmarkError, cpu_seconds, run_json
from benchmarks.report import (
    REPOSITORY,
    Goal,
    Result,
    environment,
    markdown,
    summarize,
    write_json,
)
from benchmarks.wanlab import Lab, LabError, NodeSettings, Topology, symmetric_link
from benchmarks.wanlab.self_check import goodput_mbit

DATA_SET = "train"
RECORD_BYTES = 100_000
BATCH_SIZE = 64
PORT = 7777
SAMPLE_S = 0.05
READY_DEADLINE_S = 60.0
RUN_DEADLINE_S = 600.0

GOALS = {
    "emlio_over_iperf3_30ms_5g": Goal(at_least=0.98),
    "emlio_over_iperf3_30ms_1g": Goal(at_least=0.98),
    "emlio_over_iperf3_100ms_5g": Goal(at_least=0.95),
    "emlio_over_iperf3_100ms_1g": Goal(at_least=0.98),
}


@dataclass(frozen=True)
class Run:
    """One run of one program over a link."""

    wire_mb_per_s: float  # IP bytes that arrived, over the last half of the run
    seconds: float  # by the program itself
    payload_bytes: float
    cpu_s: float  # both ends
    first_batch_s: float = 0.0

    @property
    def mb_per_s(self) -> float:
        return self.payload_bytes / self.seconds / 1e6


def steady_mb_per_s(samples: Sequence[tuple[float, int]]) -> float:
    """The rate over the last half of the time in which the middle 98 % of the bytes came.

    Connecting and the first windows are not in it, nor is what happens after the last byte.

    Args:
        samples: Seconds, and bytes that had arrived by then.
    """
    first, last = samples[0][1], samples[-1][1]
    low, high = first + 0.01 * (last - first), first + 0.99 * (last - first)
    moving = [sample for sample in samples if low <= sample[1] <= high]
    if len(moving) < 4:
        raise BenchmarkError("the run was too short for a steady rate: move more bytes")
    middle = (moving[0][0] + moving[-1][0]) / 2
    half = [sample for sample in moving if sample[0] >= middle]
    return (half[-1][1] - half[0][1]) / (half[-1][0] - half[0][0]) / 1e6


class WireMeter:
    """Watches what arrives at the compute node during the `with` block."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._samples: list[tuple[float, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while True:
            counted = self._lab.statistics()["links"][0]["to_compute"]["delivered"]["bytes"]
            self._samples.append((time.monotonic(), counted))
            if self._stop.wait(SAMPLE_S):
                return

    def __enter__(self) -> "WireMeter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def steady_mb_per_s(self) -> float:
        return steady_mb_per_s(self._samples)


class Emlio:
    """`emlio serve` in the storage node, and runs of `emlio pull` in the compute node."""

    def __init__(self, lab: Lab, executable: Path, data: Path, options: argparse.Namespace) -> None:
        self._lab = lab
        self._executable = executable
        self._options = options
        ready = data / "ready"
        ready.unlink(missing_ok=True)
        command = [executable, "serve", f"{DATA_SET}={data}/*.tfrecord", "--insecure"]
        command += ["--bind", f"0.0.0.0:{PORT}", "--index-dir", data / "index"]
        log = data / "serve.log"
        with log.open("w") as output:
            self._server = lab.storage[0].popen(
                [*map(str, command), "--ready-file", str(ready)], stdout=output, stderr=output
            )
        deadline = time.monotonic() + READY_DEADLINE_S
        while not ready.exists():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError(f"emlio serve did not start: {log.read_text()[-1000:]}")
            time.sleep(0.01)

    def transfer(self) -> Run:
        lab, options = self._lab, self._options
        url = f"tcp://{lab.address_of(lab.storage[0])}:{PORT}/{DATA_SET}"
        command = [str(self._executable), "pull", url, "--batch-size", str(BATCH_SIZE)]
        command += ["--shuffle", "full", "--epochs", str(options.epochs), "--json", "-"]
        if options.streams:
            command += ["--streams", str(options.streams)]
        if options.prefetch_mb:
            command += ["--prefetch-mb", str(options.prefetch_mb)]
        cpu_begin = cpu_seconds(self._server.pid)
        with WireMeter(lab) as meter:
            pulled = run_json(lab.compute[0].command(command), RUN_DEADLINE_S)
        return Run(
            meter.steady_mb_per_s(),
            pulled["seconds"],
            pulled["payload_bytes"],
            pulled["cpu_s"] + cpu_seconds(self._server.pid) - cpu_begin,
            pulled["time_to_first_batch_s"],
        )

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()


class Iperf3:
    """`iperf3 -s` in the storage node, and runs of the client in the compute node."""

    def __init__(self, lab: Lab, options: argparse.Namespace) -> None:
        self._lab = lab
        self._options = options
        self._server = lab.storage[0].popen(
            ["iperf3", "-s", "--forceflush"], stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None
        while "listening" not in (line := self._server.stdout.readline()):
            if not line:
                raise BenchmarkError("iperf3 -s did not start")
        # Nobody reads what it says later; an end of file there would end it.
        threading.Thread(target=self._server.stdout.read, daemon=True).start()

    def transfer(self, streams: int) -> Run:
        lab = self._lab
        command = ["iperf3", "-c", lab.address_of(lab.storage[0]), "-R", "-J", "-l", "1M"]
        command += ["-P", str(streams), "-t", str(self._options.iperf3_seconds)]
        with WireMeter(lab) as meter:
            end = run_json(lab.compute[0].command(command), RUN_DEADLINE_S)["end"]
        seconds = end["sum_received"]["seconds"]
        used = end["cpu_utilization_percent"]
        cpu_s = (used["host_total"] + used["remote_total"]) / 100 * seconds
        return Run(meter.steady_mb_per_s(), seconds, end["sum_received"]["bytes"], cpu_s)

    def close(self) -> None:
        self._server.kill()
        self._server.wait()


def link_name(rtt_ms: float, rate_mbit: float) -> str:
    """What the names of metrics end in: _30ms_5g."""
    rate = f"_{rate_mbit / 1000:g}g" if rate_mbit else ""
    return f"_{rtt_ms:g}ms{rate}"


def measure(
    executable: Path, data: Path, rtt_ms: float, rate_mbit: float, options: argparse.Namespace
) -> list[Result]:
    """All rounds over one link, EMLIO and iperf3 taking turns."""
    link = symmetric_link(rtt_ms, rate_mbit=rate_mbit, queue_bytes=options.queue_bytes)
    settings = NodeSettings(options.congestion, options.tcp_wmem, options.tcp_rmem)
    with Lab(Topology.pair(link).with_nodes(settings), "emulator") as lab:
        congestion = options.congestion or lab.storage[0].sysctl("net.ipv4.tcp_congestion_control")
        wmem = lab.storage[0].sysctl("net.ipv4.tcp_wmem")
        emlio, iperf3 = Emlio(lab, executable, data, options), Iperf3(lab, options)
        emlio.transfer()  # page tables, buffers and the index are warm for all
        iperf3_runs: dict[int, list[Run]] = {streams: [] for streams in options.iperf3_streams}
        emlio_runs: list[Run] = []
        programs: list[Callable[[], None]] = [
            *(
                lambda n=streams: iperf3_runs[n].append(iperf3.transfer(n))
                for streams in options.iperf3_streams
            ),
            lambda: emlio_runs.append(emlio.transfer()),
        ]
        loads: list[float] = []
        for number in range(options.rounds):
            for program in programs if number % 2 == 0 else reversed(programs):
                program()
                loads.append(os.getloadavg()[0])
        link_statistics = lab.statistics()["links"][0]["to_compute"]
        emlio.close()
        iperf3.close()
    best = max(
        iperf3_runs, key=lambda n: statistics.median(r.wire_mb_per_s for r in iperf3_runs[n])
    )
    name = link_name(rtt_ms, rate_mbit)
    shared = {
        "rtt_ms": rtt_ms,
        "rate_mbit": rate_mbit,
        "streams": options.streams or "default",
        "prefetch_mb": options.prefetch_mb or "default",
        "epochs": options.epochs,
        "records": options.records,
        "record_bytes": RECORD_BYTES,
        "batch_size": BATCH_SIZE,
        "iperf3_streams": best,
        "congestion": congestion,
        "tcp_wmem": wmem,
        "queue_bytes": link_statistics["settings"]["queue_bytes"],
        "queue_drops": link_statistics["dropped"]["queue"],
        "emulator_late_us_mean": link_statistics["late_us"]["mean"],
        "load_average_max": max(loads),
    }
    pairs = list(zip(emlio_runs, iperf3_runs[best], strict=True))
    results = [
        summarize(
            f"emlio_over_iperf3{name}",
            [ours.wire_mb_per_s / theirs.wire_mb_per_s for ours, theirs in pairs],
            "ratio",
            **shared,
        ),
        summarize(
            f"emlio_wire_mb_per_s{name}", [r.wire_mb_per_s for r in emlio_runs], "MB/s", **shared
        ),
        summarize(
            f"iperf3_wire_mb_per_s{name}",
            [r.wire_mb_per_s for r in iperf3_runs[best]],
            "MB/s",
            **shared,
        ),
        summarize(f"emlio_mb_per_s{name}", [r.mb_per_s for r in emlio_runs], "MB/s", **shared),
        summarize(
            f"emlio_cpu_s_per_gb{name}",
            [r.cpu_s / r.payload_bytes * 1e9 for r in emlio_runs],
            "s/GB",
            **shared,
        ),
        summarize(
            f"emlio_first_batch_ms{name}",
            [1e3 * r.first_batch_s for r in emlio_runs],
            "ms",
            **shared,
        ),
    ]
    if rate_mbit:
        carries = goodput_mbit(rate_mbit, 1500) / 8
        results.append(
            summarize(
                f"emlio_over_link{name}",
                [r.wire_mb_per_s * (1500 - 52) / 1500 / carries for r in emlio_runs],
                "ratio",
                **shared,
            )
        )
    return results


def make_data(executable: Path, folder: Path, records: int) -> None:
    """Shards of random records, in the page cache."""
    command = [str(executable), "convert", "synthetic", str(folder), "--json", "-"]
    command += ["--records", str(records), "--record-bytes", str(RECORD_BYTES), "--shards", "8"]
    run_json(command, 300)
    for shard in folder.glob("*.tfrecord"):
        with shard.open("rb") as file:
            while file.read(1 << 22):
                pass


def find_emlio() -> Path:
    for candidate in (
        os.environ.get("EMLIO_BIN"),
        REPOSITORY / "build/release/tools/emlio/emlio",
        REPOSITORY / ".venv/bin/emlio",
        "emlio",
    ):
        if candidate and (found := shutil.which(candidate)):
            return Path(found)
    raise BenchmarkError("no emlio executable: run scripts/setup, or set EMLIO_BIN")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/wan/run", description=__doc__)
    parser.add_argument("--rtt-ms", type=float, nargs="+", default=[30.0, 100.0])
    parser.add_argument("--rate-mbit", type=float, nargs="+", default=[1000.0, 5000.0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=10_000, help="of 100 KB")
    parser.add_argument("--epochs", type=int, default=2, help="of one run of emlio pull")
    parser.add_argument("--streams", type=int, help="of emlio pull (default: its own)")
    parser.add_argument("--prefetch-mb", type=int, help="of emlio pull (default: its own)")
    parser.add_argument("--iperf3-streams", type=int, nargs="+", default=[8, 24])
    parser.add_argument("--iperf3-seconds", type=int, default=8)
    parser.add_argument("--queue-bytes", type=int, help="of the link (default: a round trip)")
    parser.add_argument("--congestion")
    parser.add_argument("--tcp-wmem", metavar="'MIN DEFAULT MAX'")
    parser.add_argument("--tcp-rmem", metavar="'MIN DEFAULT MAX'")
    parser.add_argument("--data-dir", type=Path, help="default: the temporary folder")
    parser.add_argument("--quick", action="store_true", help="30 ms, 1 Gbit/s, 400 MB, 3 rounds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rtt_ms, options.rate_mbit, options.rounds = [30.0], [1000.0], 3
        options.records, options.epochs = 4000, 1
        options.iperf3_streams, options.iperf3_seconds = [8], 4
    return options


def main(arguments: Sequence[str]) -> int:
    """Measures every link that is asked for; prints a table."""
    options = parse(arguments)
    results: list[Result] = []
    versions: dict[str, Any] = {}
    try:
        executable = find_emlio()
        versions["emlio"] = json.dumps(
            subprocess.run([executable, "--version"], capture_output=True, text=True).stdout.strip()
        )
        with tempfile.TemporaryDirectory(prefix="emlio-wan-", dir=options.data_dir) as folder:
            data = Path(folder) / "data"
            make_data(executable, data, options.records)
            for rate_mbit in options.rate_mbit:
                for rtt_ms in options.rtt_ms:
                    print(f"{rtt_ms:g} ms, {rate_mbit:g} Mbit/s ...", file=sys.stderr)
                    results += measure(executable, data, rtt_ms, rate_mbit, options)
    except (BenchmarkError, LabError) as error:
        print(f"benchmarks/wan: {error}", file=sys.stderr)
        return 1
    print(markdown(results, GOALS))
    if options.json:
        write_json(options.json, environment(versions), results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
