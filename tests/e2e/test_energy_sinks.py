# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Samples of `energy record`, `energy agent` and `serve`, to InfluxDB and Prometheus."""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from command_line import DEADLINE_S, Emlio, Energy, environment, wait_until
from daemon_process import Serve
from energy_host import TWO_SOCKETS_WATTS, EnergyHost
from scripted_influx import ScriptedInflux, split_line

CLOSE = 0.15  # the host's driver is a thread on a busy machine
IN_TOTAL = ("package-0", "package-1", "dram-0", "dram-1")
DOMAINS = 5  # and one inside a package
TO_VERSION_2 = ("--influx-bucket", "energy", "--influx-org", "lab")


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def field(fields: str, name: str) -> float | None:
    found = re.search(rf"(?:^|,){name}=(-?[0-9.]+)", fields)
    return float(found.group(1)) if found else None


def joules_of(points: dict[str, str], domain: str) -> float:
    """What the points of a domain add up to."""
    mine = [fields for point, fields in points.items() if f",domain={domain}," in point]
    return sum(field(fields, "delta_j") or 0 for fields in mine)


def seconds_of(points: dict[str, str]) -> float:
    """From the first point to the last one."""
    times = [int(point.rpartition(" ")[2]) for point in points]
    return (max(times) - min(times)) * 1e-6


def metric(text: str, name: str, **labels: str) -> float:
    """A number of /metrics."""
    for line in text.splitlines():
        if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
            return float(line.rpartition(" ")[2])
    pytest.fail(f"no {name} with {labels} in:\n{text}")


def stored_reports(store: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
        return database.execute(
            "SELECT sink, target, points_sent, points_refused, points_dropped, last_error "
            "FROM sink_report"
        ).fetchall()


def test_every_sample_of_a_run_is_in_influxdb_and_the_joules_are_right(
    emlio: Emlio, store: Path, energy_here: Energy
) -> None:
    with ScriptedInflux() as influx:
        result = energy_here(
            "record", "--influx-url", influx.url, *TO_VERSION_2, "--", "sleep", "1.5"
        )
        points = dict(influx.points)
    (sink,) = result["sinks"]
    assert sink["sink"] == "influx"
    assert sink["target"] == influx.url
    assert sink["points_sent"] == len(points) == result["sampler"]["ticks"] * DOMAINS
    assert sink["points_refused"] == sink["points_dropped"] == 0
    assert all(f",run={result['run']['id']}," in point for point in points)
    joules = sum(joules_of(points, domain) for domain in IN_TOTAL)
    assert joules == pytest.approx(TWO_SOCKETS_WATTS * seconds_of(points), rel=CLOSE)
    assert stored_reports(store) == [("influx", influx.url, len(points), 0, 0, "")]
    # The store has the same points, to give a database what it missed.
    lines = emlio("energy", "export", "--store", store, "--format", "influx").stdout.splitlines()
    assert dict(split_line(line) for line in lines) == points


@pytest.mark.parametrize(
    ("version", "options", "path", "query", "authorization"),
    [
        (
            1,
            ("--influx-database", "db", "--influx-user", "me", "--influx-retention-policy", "week"),
            "/write",
            {"db": ["db"], "precision": ["u"], "rp": ["week"]},
            "Basic bWU6aHVzaA==",
        ),
        (
            2,
            TO_VERSION_2,
            "/api/v2/write",
            {"bucket": ["energy"], "org": ["lab"], "precision": ["us"]},
            "Token t0ken",
        ),
        (
            3,
            ("--influx-database", "db"),
            "/api/v3/write_lp",
            {"db": ["db"], "precision": ["microsecond"], "accept_partial": ["true"]},
            "Bearer t0ken",
        ),
    ],
)
@pytest.mark.parametrize("from_files", [True, False])
def test_every_version_is_asked_in_its_own_way(
    emlio: Emlio,
    tmp_path: Path,
    host: EnergyHost,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    options: tuple[str, ...],
    path: str,
    query: dict[str, list[str]],
    authorization: str,
    from_files: bool,
) -> None:
    secrets = {"TOKEN": "t0ken", "PASSWORD": "hush"}
    given: list[str] = []
    for name, secret in secrets.items():
        file = tmp_path / name
        file.write_text(secret + "\n")
        if from_files:
            given += [f"--influx-{name.lower()}-file", str(file)]
        monkeypatch.setenv(f"EMLIO_INFLUX_{name}", "wrong" if from_files else secret)
    with ScriptedInflux() as influx:
        done = emlio(
            *("energy", "record", "--root", host.root, "--influx-url", influx.url),
            *("--influx-version", version, *options, *given, "--json", "-", "--", "true"),
        )
        (request, *_) = influx.requests
    assert request.path == path
    assert request.query == query
    assert request.authorization == authorization
    assert "hush" not in done.stdout + done.stderr
    assert "t0ken" not in done.stdout + done.stderr


def test_what_a_dead_database_did_not_take_is_shown_and_stored(
    emlio: Emlio, tmp_path: Path, host: EnergyHost, store: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    report = tmp_path / "record.json"
    done = emlio(
        *("energy", "record", "--root", host.root, "--store", store, "--json", report),
        *("--influx-url", url, *TO_VERSION_2, "--", "sleep", "0.5"),
    )
    result = json.loads(report.read_text())
    (sink,) = result["sinks"]
    assert sink["points_sent"] == 0
    assert sink["points_dropped"] == result["sampler"]["ticks"] * DOMAINS
    assert sink["retries"] > 0
    assert "UNAVAILABLE" in sink["last_error"]
    assert "lost" in done.stderr
    assert f"the store has them: emlio energy export {result['run']['id']}" in done.stderr
    assert stored_reports(store) == [
        ("influx", url, 0, 0, sink["points_dropped"], sink["last_error"])
    ]
    # It delayed no tick: the run is as long as its command.
    assert result["seconds"] < 3
    assert result["total"]["joules"] == pytest.approx(
        TWO_SOCKETS_WATTS * result["seconds"], rel=CLOSE
    )


def test_points_that_nothing_has_are_not_said_to_be_in_a_store(
    emlio: Emlio, emlio_bin: str, tmp_path: Path, host: EnergyHost
) -> None:
    to = ("--root", str(host.root), "--influx-url", f"http://127.0.0.1:{free_port()}")
    command = ("--", "sleep", "0.3")
    default = tmp_path / "data/emlio/energy.db"
    default.parent.mkdir(parents=True)
    default.write_text("something else\n")
    for store in (("--no-store",), ()):
        said = emlio("energy", "record", *store, *to, *TO_VERSION_2, *command).stderr
        assert "nothing else has them" in said
        assert "the store has them" not in said
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [emlio_bin, "energy", "agent", "--ready-file", str(ready), *to, *TO_VERSION_2],
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(ready.exists, "the agent is ready")
    time.sleep(0.5)
    process.terminate()
    _, said = process.communicate(timeout=DEADLINE_S)
    assert "nothing else has them" in said
    assert "the store has them" not in said


def test_what_a_database_refuses_is_counted(energy_here: Energy) -> None:
    with ScriptedInflux(status=401) as influx:
        result = energy_here("record", "--influx-url", influx.url, *TO_VERSION_2, "--", "true")
    (sink,) = result["sinks"]
    assert sink["points_refused"] == result["sampler"]["ticks"] * DOMAINS
    assert "401" in sink["last_error"]


def test_metrics_are_served_while_the_command_runs(emlio: Emlio, host: EnergyHost) -> None:
    port = free_port()
    script = (
        "import time, urllib.request\n"
        "time.sleep(1)\n"
        f"print(urllib.request.urlopen('http://127.0.0.1:{port}/metrics').read().decode())\n"
    )
    with ScriptedInflux() as influx:
        done = emlio(
            *("energy", "record", "--root", host.root, "--prometheus-bind", f"127.0.0.1:{port}"),
            *("--influx-url", influx.url, *TO_VERSION_2, "--", sys.executable, "-c", script),
        )
    assert f"http://127.0.0.1:{port}/metrics" in done.stderr
    joules = {
        domain: metric(done.stdout, "emlio_energy_joules_total", domain=domain)
        for domain in IN_TOTAL
    }
    assert joules["package-0"] == pytest.approx(5 * joules["dram-0"], rel=0.05)
    assert 10 < joules["package-0"] < 50 * DEADLINE_S
    assert "emlio_energy_sink_points_total{" in done.stdout
    done = emlio(
        *("energy", "record", "--root", host.root, "--prometheus-bind", f"127.0.0.1:{port}"),
        *("--prometheus-names", "opentelemetry", "--", sys.executable, "-c", script),
    )
    assert metric(done.stdout, "hw_energy_joules_total", hw_id="package-1") > 0
    assert metric(done.stdout, "hw_host_energy_joules_total") > 0


def test_sinks_that_cannot_work_are_told_before_the_command_starts(
    emlio: Emlio, tmp_path: Path, host: EnergyHost
) -> None:
    trace = tmp_path / "trace"

    def refused(*args: object, code: int = 2) -> str:
        done = emlio(
            "energy", "record", "--root", host.root, *args, "--", "touch", trace, code=code
        )
        assert not trace.exists()
        return str(done.stderr)

    assert "bucket" in refused("--influx-url", "http://127.0.0.1:1")
    url = "http://me:hush@127.0.0.1:1"
    message = refused("--influx-url", url, "--influx-version", 1, "--influx-database", "db")
    assert "--influx-password-file" in message
    assert "hush" not in message
    refused("--influx-bucket", "energy")
    refused("--influx-url", "http://127.0.0.1:1", "--influx-version", 4)
    missing = tmp_path / "missing"
    to_one = ("--influx-url", "http://127.0.0.1:1", *TO_VERSION_2, "--influx-token-file")
    assert str(missing) in refused(*to_one, missing, code=1)
    two_lines = tmp_path / "two-lines"
    two_lines.write_text("t0ken\r\nX-Other: header\n")
    assert "more than one line" in refused(*to_one, two_lines)
    assert "--prometheus-insecure" in refused("--prometheus-bind", "0.0.0.0:0", code=1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert "taken" in refused("--prometheus-bind", f"127.0.0.1:{port}", code=1)


def test_an_agent_sends_and_serves_until_it_is_ended(
    emlio_bin: str, tmp_path: Path, host: EnergyHost
) -> None:
    report, port = tmp_path / "agent.json", free_port()
    with ScriptedInflux() as influx:
        process = subprocess.Popen(
            [
                *(emlio_bin, "energy", "agent", "--root", str(host.root), "--node", "n1"),
                *("--influx-url", influx.url, *TO_VERSION_2, "--json", str(report)),
                *("--prometheus-bind", f"127.0.0.1:{port}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(tmp_path),
        )
        try:
            wait_until(lambda: len(influx.points) > 50, "points came")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text = answer.read().decode()
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        points = dict(influx.points)
    assert metric(text, "emlio_energy_joules_total", node="n1", domain="package-1") > 0
    result = json.loads(report.read_text())
    (sink,) = result["sinks"]
    assert sink["points_sent"] == len(points) == result["sampler"]["ticks"] * DOMAINS
    assert f"{len(points):,} points delivered" in errors
    assert all(",node=n1" in point and ",run=" not in point for point in points)
    joules = sum(joules_of(points, domain) for domain in IN_TOTAL)
    assert joules == pytest.approx(TWO_SOCKETS_WATTS * seconds_of(points), rel=CLOSE)


def test_a_daemon_sends_and_serves_its_hosts_samples(
    emlio: Emlio, tmp_path: Path, shards: Path, serve: Serve, host: EnergyHost
) -> None:
    report, port = tmp_path / "serve.json", free_port()
    with ScriptedInflux() as influx:
        daemon = serve(
            {"train": shards},
            [
                *("--energy-root", str(host.root), "--json", str(report)),
                *("--influx-url", influx.url, *TO_VERSION_2),
                *("--prometheus-bind", f"127.0.0.1:{port}"),
            ],
        )
        emlio("pull", f"{daemon.endpoint}/train", "--batch-size", 10)
        wait_until(lambda: len(influx.points) > 50, "points came")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        assert daemon.stop() == 0
        points = dict(influx.points)
    assert metric(text, "emlio_energy_joules_total", domain="dram-1") > 0
    result = json.loads(report.read_text())
    assert result["served"]["records_sent"] == 300
    (sink,) = result["energy"]["sinks"]
    assert sink["points_sent"] == len(points) == result["energy"]["sampler"]["ticks"] * DOMAINS
    assert f"{len(points):,} points delivered" in daemon.log.read_text()
    # A sink that was asked for and cannot be had is no reason for silence.
    done = emlio("serve", f"train={shards}", "--influx-url", influx.url, code=2)
    assert "bucket" in done.stderr
    emlio("serve", f"train={shards}", "--no-energy", "--prometheus-bind", "127.0.0.1:0", code=2)


def test_a_real_influxdb_has_the_joules_of_a_run(tmp_path: Path, energy_here: Energy) -> None:
    servers = Path(__file__).parents[2] / ".venv/servers/usr/bin"
    program = shutil.which("influxd", path=f"{os.environ['PATH']}:{servers}")
    if program is None:
        pytest.skip("NOT TESTED: influxd is missing: scripts/setup --dev has it")
    port = free_port()
    configuration = tmp_path / "influxdb.conf"
    configuration.write_text(
        f'reporting-disabled = true\nbind-address = "127.0.0.1:{free_port()}"\n'
        f'[meta]\ndir = "{tmp_path}/meta"\n'
        f'[data]\ndir = "{tmp_path}/data"\nwal-dir = "{tmp_path}/wal"\n'
        f'[http]\nbind-address = "127.0.0.1:{port}"\n[monitor]\nstore-enabled = false\n'
    )

    def ask(query: str) -> Any:
        url = f"http://127.0.0.1:{port}/query?db=emlio&q={urllib.parse.quote(query)}"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST")) as answer:
            return json.load(answer)["results"][0]

    def answers() -> bool:
        try:
            ask("CREATE DATABASE emlio")
        except OSError:
            return False
        return True

    with (tmp_path / "influxd.log").open("w") as log:
        server = subprocess.Popen([program, "-config", str(configuration)], stdout=log, stderr=log)
    try:
        wait_until(answers, "InfluxDB answers")
        result = energy_here(
            *("record", "--influx-url", f"http://127.0.0.1:{port}"),
            *("--influx-version", 1, "--influx-database", "emlio", "--", "sleep", "1.5"),
        )
        run = result["run"]["id"]
        sums = ask(
            "SELECT sum(delta_j) FROM emlio_energy "
            f"WHERE in_total='yes' AND run='{run}' GROUP BY \"domain\""
        )
    finally:
        server.terminate()
        server.wait(DEADLINE_S)
    joules = {one["tags"]["domain"]: one["values"][0][1] for one in sums["series"]}
    assert set(joules) == set(IN_TOTAL)
    assert joules["package-0"] == pytest.approx(5 * joules["dram-0"], rel=0.05)
    # All samples: a little longer than the window of the command.
    assert result["total"]["joules"] * (1 - CLOSE) < sum(joules.values())
