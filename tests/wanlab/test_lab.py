# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The laboratory's links do what they are set to, and leave nothing behind."""

import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.wanlab import (
    Direction,
    Lab,
    LabError,
    Link,
    Node,
    NodeSettings,
    NotPermittedError,
    Topology,
    find_emulator,
    symmetric_link,
)
from benchmarks.wanlab.probe import SILENCE_S
from benchmarks.wanlab.self_check import goodput_mbit, self_check

REPOSITORY = Path(__file__).resolve().parents[2]
PROBE = REPOSITORY / "benchmarks/wanlab/probe.py"
DEADLINE_S = 60.0


@pytest.fixture(scope="session")
def permitted() -> None:
    """Skips where there is no emulator, or the system permits no namespaces or TUN devices."""
    try:
        find_emulator()
    except LabError as error:
        pytest.skip(str(error))
    try:
        with Lab(Topology.pair(Link()), backend="emulator"):
            pass
    except NotPermittedError as error:
        pytest.skip(f"no laboratory here: {error}")


@pytest.fixture
def make_lab(permitted: None) -> Callable[[Topology], Lab]:
    # The emulator is what is tested, also where the kernel has one.
    return functools.partial(Lab, backend="emulator")


def probe(node: Node, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, str(PROBE), *map(str, arguments)]
    result: dict[str, Any] = json.loads(node.run(command, timeout_s=DEADLINE_S).stdout)
    return result


def start_probe(node: Node, mode: str) -> tuple[subprocess.Popen[str], int]:
    """A server of probe.py and its port."""
    server = node.popen([sys.executable, PROBE, mode], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server, int(server.stdout.readline())


def rtts_ms(lab: Lab, link: int = 0, count: int = 20) -> list[float]:
    """Round-trip times of a link, from the compute node."""
    at_storage, at_compute, _ = lab.topology.links[link]
    server, port = start_probe(lab.storage[at_storage], "echo-server")
    address = lab.address_of(lab.storage[at_storage], link)
    rtts: list[float] = probe(lab.compute[at_compute], "echo", address, port, count, 0.005)[
        "rtts_ms"
    ]
    server.kill()
    server.communicate()
    return rtts


def arrived(lab: Lab, sender: Node, receiver: Node, packets: int) -> int:
    """How many of numbered packets arrive."""
    server, port = start_probe(receiver, "count-server")
    probe(sender, "count", lab.address_of(receiver), port, packets, 5000)
    stdout, _ = server.communicate(timeout=DEADLINE_S)
    received: int = json.loads(stdout)["received"]
    return received


def processes_in(namespaces: set[int]) -> list[int]:
    """Processes of this machine that are in one of these network namespaces."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns/net").stat().st_ino in namespaces:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def namespace_of(node: Node) -> int:
    return int(node.run(["stat", "-L", "-c", "%i", "/proc/self/ns/net"]).stdout)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the deadline passed"
        time.sleep(0.01)


def test_a_round_trip_takes_as_long_as_set(make_lab: Callable[[Topology], Lab]) -> None:
    with make_lab(Topology.pair(symmetric_link(rtt_ms=40))) as lab:
        rtts = rtts_ms(lab)
    assert len(rtts) == 20
    # The quickest: others may have waited for a core.
    assert 39.5 <= min(rtts) <= 50


def test_each_direction_has_its_own_settings(make_lab: Callable[[Topology], Lab]) -> None:
    link = Link(
        to_compute=Direction(delay_ms=30, loss_percent=50),
        to_storage=Direction(rate_mbit=20),
    )
    with make_lab(Topology.pair(link)) as lab:
        storage, compute = lab.storage[0], lab.compute[0]
        assert 29.5 <= min(rtts_ms(lab, count=40)) <= 40
        assert arrived(lab, compute, storage, 1000) == 1000
        assert 400 <= arrived(lab, storage, compute, 1000) <= 600  # 6 standard deviations
        statistics = lab.statistics()["links"][0]
    assert statistics["to_compute"]["dropped"]["loss"] > 300
    assert statistics["to_storage"]["dropped"]["loss"] == 0


def test_a_rate_is_not_exceeded_and_not_nothing(make_lab: Callable[[Topology], Lab]) -> None:
    link = Link(to_compute=Direction(delay_ms=5, rate_mbit=100), to_storage=Direction(delay_ms=5))
    with make_lab(Topology.pair(link)) as lab:
        _, port = start_probe(lab.storage[0], "source")
        address = lab.address_of(lab.storage[0])
        measured = probe(lab.compute[0], "sink", address, port, 4, 0.5, 1.0)["mbit_per_s"]
        peak = lab.statistics()["links"][0]["to_compute"]["peak_queue_bytes"]
    assert 0 < measured <= 1.25 * goodput_mbit(100, 1500)
    assert 0 < peak <= 1 << 20


def test_what_tcp_carries_is_whole_where_packets_are_lost_and_overtaken(
    make_lab: Callable[[Topology], Lab], tmp_path: Path
) -> None:
    data = os.urandom(20_000_000)
    (tmp_path / "data").write_bytes(data)
    serve = (
        "import socket,sys; l=socket.create_server(('',0)); print(l.getsockname()[1], flush=True)\n"
    )
    serve += "c,_=l.accept(); c.sendfile(open(sys.argv[1],'rb'))"
    fetch = (
        "import socket,sys,hashlib; c=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
    )
    fetch += "h=hashlib.sha256()\nwhile d:=c.recv(1<<20): h.update(d)\nprint(h.hexdigest())"
    link = symmetric_link(rtt_ms=4, loss_percent=0.5, reorder_percent=1, reorder_by_ms=0.5)
    with make_lab(Topology.pair(link)) as lab:
        server = lab.storage[0].popen(
            [sys.executable, "-c", serve, tmp_path / "data"], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        address = lab.address_of(lab.storage[0])
        digest = lab.compute[0].run([sys.executable, "-c", fetch, address, port]).stdout.strip()
        statistics = lab.statistics()["links"][0]["to_compute"]
    assert digest == hashlib.sha256(data).hexdigest()
    assert statistics["dropped"]["loss"] > 0
    assert statistics["reordered_packets"] > 0
    # Super-packets came, and were divided.
    assert statistics["offered"]["frames"] < statistics["offered"]["packets"] / 2
    assert statistics["delivered"]["frames"] > statistics["offered"]["frames"]


def test_settings_change_while_it_runs(make_lab: Callable[[Topology], Lab]) -> None:
    with make_lab(Topology.pair(symmetric_link(rtt_ms=2))) as lab:
        storage, compute = lab.storage[0], lab.compute[0]
        assert min(rtts_ms(lab)) < 20
        lab.set_link(delay_ms=30)
        assert 59 <= min(rtts_ms(lab)) <= 70
        lab.set_link(direction="to_storage", cut=True)
        assert arrived(lab, storage, compute, 100) == 100
        server, port = start_probe(storage, "echo-server")
        assert probe(compute, "echo", lab.address_of(storage), port, 3, 0.0)["rtts_ms"] == []
        server.kill()
        lab.set_link(direction="to_storage", cut=False)
        assert len(rtts_ms(lab)) == 20
        with pytest.raises(LabError, match='unknown field "delay"'):
            lab.set_link(delay=1)
        with pytest.raises(LabError, match="no link 1"):
            lab.set_link(1, cut=True)


def test_a_stall_loses_nothing(make_lab: Callable[[Topology], Lab]) -> None:
    with make_lab(Topology.pair(symmetric_link(rtt_ms=2))) as lab:
        storage, compute = lab.storage[0], lab.compute[0]
        server, port = start_probe(storage, "count-server")
        lab.set_link(direction="to_storage", stalled=True)
        probe(compute, "count", lab.address_of(storage), port, 50, 5000)
        held = lab.statistics()["links"][0]["to_storage"]
        assert held["offered"]["packets"] >= 50
        assert held["delivered"]["packets"] == 0
        lab.set_link(direction="to_storage", stalled=False)
        stdout, _ = server.communicate(timeout=DEADLINE_S)
    assert json.loads(stdout)["received"] == 50


def test_every_storage_node_has_its_own_link(make_lab: Callable[[Topology], Lab]) -> None:
    with make_lab(
        Topology.many_storage([symmetric_link(rtt_ms=5), symmetric_link(rtt_ms=50)])
    ) as lab:
        assert [node.name for node in lab.storage] == ["storage0", "storage1"]
        assert 4.9 <= min(rtts_ms(lab, 0)) <= 30
        assert 49.5 <= min(rtts_ms(lab, 1)) <= 75
        assert lab.link_number(lab.storage[1], lab.compute[0]) == 1


def test_every_compute_node_has_its_own_link(make_lab: Callable[[Topology], Lab]) -> None:
    with make_lab(
        Topology.many_compute([symmetric_link(rtt_ms=5), symmetric_link(rtt_ms=50)])
    ) as lab:
        assert 4.9 <= min(rtts_ms(lab, 0)) <= 30
        assert 49.5 <= min(rtts_ms(lab, 1)) <= 75


def test_a_node_has_its_own_kernel_settings(make_lab: Callable[[Topology], Lab]) -> None:
    here = Path("/proc/sys/net/ipv4/tcp_wmem").read_text()
    settings = NodeSettings(tcp_wmem="4096 20000 300000")
    with make_lab(Topology.pair(Link()).with_nodes(settings)) as lab:
        assert lab.compute[0].sysctl("net.ipv4.tcp_wmem").split() == ["4096", "20000", "300000"]
        with pytest.raises(LabError, match="this kernel has no nonsense"):
            lab.compute[0].set_congestion("nonsense")
    assert Path("/proc/sys/net/ipv4/tcp_wmem").read_text() == here


@pytest.mark.parametrize("algorithm", ["cubic", "bbr", "reno"])
def test_any_congestion_control_of_the_kernel_may_be_chosen(
    make_lab: Callable[[Topology], Lab], algorithm: str
) -> None:
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    if algorithm not in known:
        pytest.skip(f"this kernel has no {algorithm}")
    if shutil.which("ip") is None:
        pytest.skip("iproute2 is not installed")
    client = (
        "import socket,sys; c=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
        "print(c.getsockopt(6, socket.TCP_CONGESTION, 16).split(b'\\0')[0].decode())"
    )
    topology = Topology.pair(Link()).with_nodes(NodeSettings(congestion=algorithm))
    with make_lab(topology) as lab:
        _, port = start_probe(lab.storage[0], "source")
        address = lab.address_of(lab.storage[0])
        command = [sys.executable, "-c", client, address, str(port)]
        assert lab.compute[0].run(command).stdout.strip() == algorithm


def test_processes_end_with_the_laboratory(make_lab: Callable[[Topology], Lab]) -> None:
    with make_lab(Topology.pair(Link())) as lab:
        namespaces = {namespace_of(node) for node in (*lab.storage, *lab.compute)}
        lab.storage[0].popen(["sleep", "1000"])
        # One that has left its session, and is nobody's child.
        lab.compute[0].run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &"])
        wait_until(lambda: len(processes_in(namespaces)) == 2)
    assert processes_in(namespaces) == []
    assert lab.final_statistics is not None


def test_processes_end_after_an_exception(make_lab: Callable[[Topology], Lab]) -> None:
    lab = make_lab(Topology.pair(Link()))
    namespaces = set()

    def fail() -> None:
        with lab:
            namespaces.add(namespace_of(lab.storage[0]))
            lab.storage[0].popen(["sleep", "1000"])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert processes_in(namespaces) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_program_that_made_the_laboratory(
    permitted: None, number: signal.Signals
) -> None:
    program = """
import os, sys, time
from benchmarks.wanlab import Lab, Link, Topology
with Lab(Topology.pair(Link()), backend="emulator") as lab:
    namespace = lab.storage[0].run(["stat", "-L", "-c", "%i", "/proc/self/ns/net"]).stdout.strip()
    lab.storage[0].popen(["sleep", "1000"])
    print(namespace, flush=True)
    time.sleep(1000)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    namespaces = {int(process.stdout.readline())}
    wait_until(lambda: len(processes_in(namespaces)) >= 1)
    process.send_signal(number)
    process.communicate(timeout=DEADLINE_S)
    wait_until(lambda: processes_in(namespaces) == [])
    if number is signal.SIGTERM:
        assert process.returncode == 128 + number


def test_a_link_that_is_not_as_it_is_said_to_be_is_found_out(
    make_lab: Callable[[Topology], Lab],
) -> None:
    with make_lab(Topology.pair(symmetric_link(rtt_ms=10, loss_percent=5))) as lab:
        said = Link(Direction(delay_ms=20, loss_percent=5, rate_mbit=0.5), Direction(delay_ms=20))
        verdict = self_check(lab, 0, said, seconds=0.4)
    wrong = {check.what for check in verdict.checks if not check.ok}
    assert {"RTT, median of echoes", "loss to_storage", "rate to_compute, 8 TCP"} <= wrong
    assert "loss to_compute" not in wrong
    assert not verdict.ok


@pytest.fixture
def command_line(permitted: None) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "benchmarks.wanlab", "--backend", "emulator", *arguments],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            timeout=DEADLINE_S,
        )

    return run


def test_the_command_runs_in_the_compute_node(
    command_line: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    done = command_line(
        *("--rtt-ms", "4", "--json", str(report)),
        *("--", "sh", "-c", "cat /proc/net/fib_trie; echo {storage}; exit 5"),
    )
    assert done.returncode == 5, done.stderr
    assert "10.77.0.2" in done.stdout
    assert done.stdout.splitlines()[-1] == "10.77.0.1"
    written = json.loads(report.read_text())
    assert written["backend"] == "emulator"
    assert len(written["statistics"]["links"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rtt-ms", "4"],
        ["--to-compute", '{"dely_ms": 1}', "--", "true"],
        ["--storage", "2", "--compute", "2", "--", "true"],
    ],
)
def test_wrong_options_are_told_apart(
    command_line: Callable[..., subprocess.CompletedProcess[str]], arguments: list[str]
) -> None:
    assert command_line(*arguments).returncode == 2


def test_a_setting_that_cannot_be_is_an_error(make_lab: Callable[[Topology], Lab]) -> None:
    with (
        pytest.raises(LabError, match='link 0: to_compute: "loss_percent" must be a number'),
        make_lab(Topology.pair(symmetric_link(loss_percent=101))),
    ):
        pass


def test_silence_is_shorter_than_the_deadline_of_these_tests() -> None:
    assert 5 * SILENCE_S < DEADLINE_S
