# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""`emlio energy`, on hosts with and without counters."""

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import DEADLINE_S, Emlio, Energy, environment
from daemon_process import Serve
from energy_agents import Agent, running_agent
from energy_host import TWO_SOCKETS_WATTS, EnergyHost, Zone, two_sockets

# What a test takes for the watts of a host: on a busy machine whoever moves its counters is late.
CLOSE = 0.1
SOURCES = {"perf", "powercap", "powercap-mmio", "hwmon", "nvml", "rocm"}


def of(result: dict[str, Any], domain: str) -> dict[str, Any]:
    """One domain of a report."""
    found = [one for one in result["domains"] if one["id"] == domain]
    assert len(found) == 1, result["domains"]
    return dict(found[0])


def test_a_command_is_measured_by_the_counters_of_its_host(energy_here: Energy) -> None:
    result = energy_here("record", "--", "sleep", "1.5")
    seconds = result["seconds"]
    assert seconds >= 1.5
    assert result["total"]["state"] == "measured"
    assert result["total"]["joules"] == pytest.approx(TWO_SOCKETS_WATTS * seconds, rel=CLOSE)
    assert of(result, "package-0")["mean_watts"] == pytest.approx(50, rel=CLOSE)
    assert of(result, "dram-1")["joules"] == pytest.approx(8 * seconds, rel=CLOSE)
    # What is inside a package is shown and not added.
    core = of(result, "core-0")
    assert core["joules"] == pytest.approx(35 * seconds, rel=CLOSE)
    assert not core["in_total"]
    assert core["outside_total"] == "inside the package"
    assert result["sampler"]["ticks"] > 5


def test_the_exit_code_is_that_of_the_command(bare_root: Path, energy: Energy) -> None:
    result = energy("record", "--root", bare_root, "--", "sh", "-c", "exit 7", code=7)
    assert result["exit_code"] == 7
    result = energy("record", "--root", bare_root, "--", "sh", "-c", "kill -9 $$", code=137)
    assert result["exit_code"] == 137


def test_a_command_that_cannot_be_run_is_told_as_a_shell_does(
    emlio: Emlio, tmp_path: Path, bare_root: Path
) -> None:
    missing = emlio("energy", "record", "--root", bare_root, "--", "no-such-command", code=127)
    assert "no-such-command" in missing.stderr
    plain = tmp_path / "plain"
    plain.write_text("")
    emlio("energy", "record", "--root", bare_root, "--", plain, code=126)


def test_arguments_reach_the_command_as_they_are(emlio: Emlio, bare_root: Path) -> None:
    words = ["[1,2]", "", "--json", "-x", "a b", "--", "%%"]
    done = emlio(
        *("energy", "record", "--root", bare_root, "--", sys.executable, "-c"),
        *("import json, sys; print(json.dumps(sys.argv[1:]))", *words),
    )
    assert json.loads(done.stdout) == words


def test_a_command_has_to_be_given_behind_two_dashes(emlio: Emlio) -> None:
    assert "behind --" in emlio("energy", "record", code=2).stderr
    emlio("energy", "record", "true", code=2)


def test_without_counters_the_command_runs_and_no_joule_is_made_up(
    bare_root: Path, energy: Energy
) -> None:
    result = energy("record", "--root", bare_root, "--", "true")
    assert result["total"]["joules"] is None
    assert result["total"]["state"] == "unavailable"
    assert {one["id"] for one in result["domains"]} == {"package", "dram"}
    for one in result["domains"]:
        assert one["joules"] is None
        assert one["mean_watts"] is None
        assert one["state"] == "unavailable"
        assert one["cause"]
        assert one["fix"]
        assert "root" not in one["fix"]
    assert {one["source"] for one in result["absent"]} >= SOURCES
    assert all(one["cause"] for one in result["absent"])
    # What is no energy is never called so.
    assert result["proxies"]["command_cpu_s"] >= 0
    assert not [key for key in result["proxies"] if "joule" in key or "watt" in key]


def test_without_counters_tables_say_not_available_and_list_proxies(
    emlio: Emlio, bare_root: Path
) -> None:
    done = emlio("energy", "record", "--root", bare_root, "--", "echo", "hello")
    assert done.stdout == "hello\n"
    total = next(line for line in done.stderr.splitlines() if line.startswith("total"))
    assert "n/a" in total
    assert "proxy, not energy" in done.stderr
    assert "CPU time of the command" in done.stderr


def test_what_is_required_to_be_measured_is_checked_before_the_command_starts(
    emlio: Emlio, tmp_path: Path, bare_root: Path
) -> None:
    trace = tmp_path / "trace"
    done = emlio(
        *("energy", "record", "--require-measured", "--root", bare_root, "--", "touch", trace),
        code=3,
    )
    assert not trace.exists()
    # What both lack is said once, with what helps.
    assert "package, dram: " in done.stderr
    assert done.stderr.count("fix: ") == 1
    with EnergyHost(tmp_path / "virtual", two_sockets(tmp_path).zones, hypervisor=True) as virtual:
        done = emlio(
            *("energy", "record", "--require-measured", "--root", virtual.root),
            *("--", "touch", trace),
            code=3,
        )
    assert "hypervisor" in done.stderr
    assert not trace.exists()


def test_every_node_has_to_be_measured_when_that_is_required(
    emlio_bin: str, tmp_path: Path, bare_root: Path, store: Path, energy_here: Energy
) -> None:
    ran = tmp_path / "ran"
    touch = ["--", "touch", ran]
    must = ["--require-measured", "--connect-timeout-s", "5"]
    (bare_root / "proc/sys/kernel/random").mkdir(parents=True)
    (bare_root / "proc/sys/kernel/random/boot_id").write_text("11111111-bare\n")
    options = ("--root", bare_root, "--node", "bare")
    with running_agent(emlio_bin, tmp_path, *options) as (agent, endpoint):
        result = energy_here("record", *must, "--node", endpoint, *touch, code=3)
    assert agent.returncode == 0
    assert "node bare: " in result["error"]["message"]
    assert [node["node"] for node in result["nodes"]] == ["bare"]
    must[2] = "0.3"
    result = energy_here("record", *must, "--node", "127.0.0.1:1", *touch, code=3)
    assert "node tcp://127.0.0.1:1 does not answer" in result["error"]["message"]
    assert not ran.exists()
    assert not store.exists()
    must[2] = "5"
    with (
        two_sockets(tmp_path / "there", "there") as there,
        running_agent(emlio_bin, tmp_path, "--root", there.root) as (agent, endpoint),
    ):
        energy_here("record", *must, "--node", endpoint, *touch)
    assert agent.returncode == 0
    assert ran.exists()


def test_what_is_measured_satisfies_who_requires_it(energy_here: Energy) -> None:
    result = energy_here("record", "--require-measured", "--", "sleep", "1.5")
    assert result["exit_code"] == 0


def test_json_on_standard_output_is_alone_there(emlio: Emlio, bare_root: Path) -> None:
    done = emlio("energy", "record", "--json", "-", "--root", bare_root, "--", "echo", "hello")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "hello" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_keeps_the_results(
    emlio_bin: str, tmp_path: Path, host: EnergyHost, number: signal.Signals
) -> None:
    report = tmp_path / "record.json"
    ready = tmp_path / "ready"
    # Its own way of ending, with a code of its own.
    script = (
        "import pathlib, signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(9))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [
            *(emlio_bin, "energy", "record", "--root", str(host.root), "--json", str(report)),
            *("--no-store", "--", sys.executable, "-c", script),
        ],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + DEADLINE_S
    while not ready.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(DEADLINE_S) == 9
    result = json.loads(report.read_text())
    assert result["exit_code"] == 9
    assert result["total"]["joules"] == pytest.approx(
        TWO_SOCKETS_WATTS * result["seconds"], rel=CLOSE
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("subcommand", ["record", "baseline", "stages", "agent"])
def test_a_signal_while_memory_is_looked_at_ends_everything(
    emlio_bin: str, tmp_path: Path, host: EnergyHost, subcommand: str, number: signal.Signals
) -> None:
    ran = tmp_path / "ran"
    command = [emlio_bin, "energy", subcommand, "--memory-check", "always"]
    command += ["--root", str(host.root)]
    if subcommand == "agent":
        command += ["--ready-file", str(ran)]
    else:
        command += ["--store", str(tmp_path / "energy.db"), "--", "touch", str(ran)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "under load" in process.stderr.readline()
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == -number
    assert not ran.exists()


def test_a_command_gets_a_signal_of_timeout_once(emlio_bin: str) -> None:
    # It counts until some time after the first.
    script = (
        "import signal, time\n"
        "came = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: came.append(time.monotonic()))\n"
        "while not came or time.monotonic() < came[0] + 1: time.sleep(0.01)\n"
        "print(len(came))\n"
    )
    done = subprocess.run(
        [
            *("timeout", "2", emlio_bin, "energy", "record", "--no-store", "--"),
            *(sys.executable, "-c", script),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout == "1\n"


def test_a_signal_from_the_leader_of_the_group_is_passed_on(emlio_bin: str, tmp_path: Path) -> None:
    # A script that is a group of its own, with `emlio` and its command in it.
    ready = tmp_path / "ready"
    job = f"trap 'echo told; exit 3' TERM; touch {ready}; while :; do sleep 0.05; done"
    done = subprocess.run(
        [
            *("sh", "-c", f'"$@" & until [ -e {ready} ]; do sleep 0.05; done; kill $!; wait $!'),
            *("sh", emlio_bin, "energy", "record", "--no-store", "--", "sh", "-c", job),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=DEADLINE_S,
        start_new_session=True,
    )
    assert (done.stdout, done.returncode) == ("told\n", 3)


def test_the_doctor_says_why_each_source_is_not_used(emlio: Emlio, bare_root: Path) -> None:
    done = emlio("energy", "doctor", "--json", "-", "--root", bare_root)
    result = json.loads(done.stdout)
    assert not result["measurable"]
    assert {one["source"] for one in result["absent"]} >= SOURCES
    assert all(one["cause"] for one in result["absent"])
    people = emlio("energy", "doctor", "--root", bare_root).stdout
    assert "cannot be measured" in people
    assert "powercap-mmio" in people


def test_the_doctor_finds_memory_that_does_not_feel_its_load(
    emlio: Emlio, host: EnergyHost
) -> None:
    unloaded = ("energy", "doctor", "--no-memory-load", "--json", "-", "--root", host.root)
    before = json.loads(emlio(*unloaded).stdout)
    assert before["measurable"]
    assert before["total"]["mean_watts"] == pytest.approx(TWO_SOCKETS_WATTS, rel=CLOSE)
    done = emlio("energy", "doctor", "--json", "-", "--root", host.root)
    result = json.loads(done.stdout)
    dram = of(result, "dram-0")
    assert dram["memory_load"]["result"] == "flat"
    assert dram["state"] == "implausible"
    assert dram["joules"] is None
    assert dram["cause"]
    assert result["total"]["joules"] is None
    assert of(result, "package-0")["source"] == "powercap"
    assert 0 < of(result, "package-0")["update_period_ms"] < 100
    # What was found holds for who does not look again, as it does for `record`.
    after = json.loads(emlio(*unloaded).stdout)
    assert of(after, "dram-0")["state"] == "implausible"
    assert after["total"]["joules"] is None


def test_memory_that_does_not_rise_is_shown_and_not_summed(
    emlio: Emlio, energy: Energy, host: EnergyHost
) -> None:
    sleep = ["--root", host.root, "--", "sleep", "1.5"]
    unchecked = energy("record", *sleep)
    assert of(unchecked, "dram-0")["facts"]["memory_load"] == "not checked"
    assert unchecked["total"]["joules"] is not None
    result = energy("record", "--memory-check", "always", *sleep)
    for dram in ("dram-0", "dram-1"):
        assert of(result, dram)["facts"]["memory_load"] == "flat"
        assert of(result, dram)["state"] == "implausible"
        assert of(result, dram)["joules"] is None
    assert result["total"]["joules"] is None
    # It stays so until somebody finds otherwise, and is no measurement.
    assert energy("record", *sleep)["total"]["joules"] is None
    done = emlio("energy", "record", "--require-measured", *sleep, code=3)
    assert "does not rise" in done.stderr


@pytest.mark.parametrize("runs", [("baseline", "0.3"), ("stages", "0.1")])
def test_memory_is_looked_at_before_the_first_run_of_an_experiment(
    emlio: Emlio, tmp_path: Path, host: EnergyHost, runs: tuple[str, str]
) -> None:
    subcommand, seconds = runs
    store = tmp_path / "energy.db"
    args = ["--root", host.root, "--store", store, "--memory-check"]
    sleep = ["--", "sleep", seconds]
    done = emlio("energy", subcommand, *args, "always", *sleep, code=1)
    assert done.stderr.count("memory is put under load") == 1
    assert "once after each start" not in done.stderr  # it is each time that this is asked for
    assert done.stderr.count("under a memory load: flat") == 2
    with contextlib.closing(sqlite3.connect(store)) as database:
        domains = database.execute("SELECT facts FROM domain WHERE kind = 'dram'").fetchall()
    assert domains
    assert all(json.loads(facts)["memory_load"] == "flat" for (facts,) in domains)


def test_who_looks_at_memory_second_waits_for_the_first(
    emlio_bin: str, tmp_path: Path, host: EnergyHost
) -> None:
    command = [emlio_bin, "energy", "record", "--memory-check", "always", "--no-store"]
    command += ["--root", str(host.root), "--", "sleep", "0.1"]
    processes = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(tmp_path))
        for _ in range(2)
    ]
    began = time.monotonic()
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert time.monotonic() - began > 4  # two checks of 2.5 s, one after the other
    assert [process.returncode for process in processes] == [0, 0]
    for text in said:
        assert "memory is put under load" in text
        assert "not looked at" not in text


def test_an_agent_looks_at_memory_when_it_is_told_to(
    emlio_bin: str,
    tmp_path: Path,
    energy: Energy,
    host: EnergyHost,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", environment(tmp_path)["XDG_RUNTIME_DIR"])
    root = ("--root", host.root)
    sleep = ("--", "sleep", "1.5")
    with running_agent(emlio_bin, tmp_path, *root):
        pass
    unchecked = energy("record", *root, *sleep)
    assert of(unchecked, "dram-0")["facts"]["memory_load"] == "not checked"
    with running_agent(emlio_bin, tmp_path, *root, "--memory-check", "always"):
        pass
    checked = energy("record", *root, *sleep)
    assert of(checked, "dram-0")["facts"]["memory_load"] == "flat"


def test_limits_of_memory_are_options(emlio: Emlio, energy: Energy, host: EnergyHost) -> None:
    result = energy("record", "--dram-watts", "0.5:9", "--root", host.root, "--", "sleep", "1.5")
    assert of(result, "dram-0")["state"] == "implausible"
    assert of(result, "dram-0")["joules"] is None
    assert of(result, "dram-1")["state"] == "measured"
    assert result["total"]["joules"] is None
    done = emlio("energy", "record", "--dram-watts", "9:1", "--", "true", code=2)
    assert "not LEAST:MOST" in done.stderr


def test_missing_time_is_withheld_unless_gaps_are_allowed(energy: Energy, tmp_path: Path) -> None:
    root = tmp_path / "jumping"
    watts = root / "watts"
    # For a moment the counter rises by more than any package can use.
    jump = (
        f"sleep 0.7; echo 2000000 > {watts}.a; echo 50 > {watts}.b; mv {watts}.a {watts}; "
        f"sleep 0.05; mv {watts}.b {watts}; sleep 0.7"
    )
    zone = Zone("intel-rapl:0", "package-0", 50, 11_000_000_000, watts_file="watts")
    with EnergyHost(root, [zone]):
        command = ["--root", root, "--", "sh", "-c", jump]
        withheld = energy("record", *command)
        allowed = energy("record", "--allow-gaps", *command)
    package = of(withheld, "package-0")
    assert (package["state"], package["joules"]) == ("gap", None)
    assert package["resets"] >= 1
    assert "are unknown" in package["cause"]
    assert withheld["total"]["joules"] is None
    package = of(allowed, "package-0")
    assert package["state"] == "gap"
    assert package["joules"] == pytest.approx(
        50 * (allowed["seconds"] - package["void_s"]), rel=CLOSE
    )
    assert allowed["total"]["joules"] is None


def test_intervals_from_10_ms_to_1_s_give_the_same_energy(emlio: Emlio, host: EnergyHost) -> None:
    done = emlio(
        *("energy", "validate-interval", "--seconds", 3, "--json", "-", "--root", host.root)
    )
    result = json.loads(done.stdout)
    assert [one["interval_ms"] for one in result["intervals"]] == [10, 20, 50, 100, 200, 500, 1000]
    for one in result["intervals"]:
        assert one["total"]["joules"] == pytest.approx(
            TWO_SOCKETS_WATTS * result["seconds"], rel=CLOSE
        )
        assert abs(one["difference_percent"]) < 5
        assert one["sampler"]["cpu_s"] > 0


@pytest.mark.parametrize("seconds", ["0", "0.9", "-1", "nan"])
def test_intervals_are_not_compared_over_less_than_the_longest(emlio: Emlio, seconds: str) -> None:
    done = emlio("energy", "validate-interval", f"--seconds={seconds}", code=2)
    assert "is not a number from 1 to" in done.stderr


def test_the_storage_node_is_in_the_total_by_default(
    emlio_bin: str, tmp_path: Path, shards: Path, serve: Serve, energy_here: Energy
) -> None:
    with two_sockets(tmp_path / "storage", "storage") as storage:
        daemon = serve({"train": shards}, ["--energy-root", str(storage.root)])
        # Nobody tells it of the storage node: the loader finds it.
        result = energy_here(
            # Long beside samples that may be late.
            *("record", "--", "sh", "-c", 'sleep 2; exec "$@"', "sh"),
            *(emlio_bin, "pull", f"{daemon.endpoint}/train", "--batch-size", 10, "--epochs", 2),
        )
    assert result["total"]["joules"] == pytest.approx(
        TWO_SOCKETS_WATTS * result["seconds"], rel=CLOSE
    )
    (node,) = result["nodes"]
    assert node["role"] == "storage"
    assert node["state"] == "whole", node
    assert node["joined_late"]
    assert node["seconds"] == pytest.approx(result["seconds"], abs=0.5)
    assert node["clock"]["offset_ms"] == pytest.approx(0, abs=50)
    assert node["clock"]["at_stop"]["synchronised"] in (True, False)
    # Epochs are windows on both sides.
    assert [(one["name"], one["epoch"]) for one in result["windows"]] == [
        ("epoch", 0),
        ("epoch", 1),
    ]
    assert [one["records"] for one in result["windows"]] == [300, 300]
    served = [one for one in node["windows"] if one["name"] == "serve"]
    assert [one["epoch"] for one in served] == [0, 1]
    assert [one["bytes"] for one in served] == [300_000, 300_000]
    without = energy_here("record", "--no-find", "--", "true")
    assert without["nodes"] == []


def test_a_storage_node_that_nobody_measures_makes_the_total_incomplete(
    emlio: Emlio,
    emlio_bin: str,
    tmp_path: Path,
    shards: Path,
    serve: Serve,
    store: Path,
    energy_here: Energy,
) -> None:
    with two_sockets(tmp_path / "storage", "storage") as storage:
        daemon = serve({"train": shards}, ["--no-energy", "--energy-root", str(storage.root)])
        pull = [emlio_bin, "pull", f"{daemon.endpoint}/train", "--batch-size", 10]
        pull += ["--epochs", 2]
        command = ["--", "sh", "-c", 'sleep 1; exec "$@"', "sh", *pull]
        result = energy_here("record", *command)
        unsought = energy_here("record", "--no-find", *command)
        said = emlio("energy", "record", "--no-find", "--no-store", "--", "true").stderr
    assert result["total"]["state"] == "measured"
    total = result["run"]["total"]
    assert (total["state"], total["joules"]) == ("incomplete", None)
    (missing,) = total["missing"]
    assert missing["node"] == daemon.endpoint
    assert "fix: start 'emlio serve' there without --no-energy" in missing["cause"]
    assert result["nodes"][0]["state"] == "unreachable"
    assert result["run"]["hosts_looked_for"]
    text = emlio("energy", "report", result["run"]["id"], "--store", store).stdout
    assert "measures no energy" in text
    # Who does not want them to be found is told that they are not.
    assert unsought["nodes"] == []
    assert not unsought["run"]["hosts_looked_for"]
    assert "were not looked for" in said
    with contextlib.closing(sqlite3.connect(store)) as db:
        notes = db.execute("SELECT run_id FROM note WHERE kind = 'not_looked_for'").fetchall()
    assert notes == [(unsought["run"]["id"],)]


def test_a_daemon_on_the_measured_host_needs_no_agent(
    emlio_bin: str, shards: Path, serve: Serve, host: EnergyHost, energy_here: Energy
) -> None:
    daemon = serve({"train": shards}, ["--no-energy", "--energy-root", str(host.root)])
    result = energy_here(
        *("record", "--", "sh", "-c", 'sleep 1; exec "$@"', "sh"),
        *(emlio_bin, "pull", f"{daemon.endpoint}/train", "--batch-size", 10),
    )
    assert [node["state"] for node in result["nodes"]] == ["same_host"]
    assert result["run"]["total"]["joules"] == result["total"]["joules"] is not None
    assert [one["name"] for one in result["windows"]] == ["epoch"]


def test_a_job_that_reads_its_data_itself_has_no_storage_node(
    emlio_bin: str, shards: Path, energy_here: Energy
) -> None:
    result = energy_here(
        *("record", "--", "sh", "-c", 'sleep 1; exec "$@"', "sh"),
        *(emlio_bin, "pull", f"{shards}/*.tfrecord", "--batch-size", 10),
    )
    assert result["nodes"] == []
    assert result["run"]["total"]["joules"] == result["total"]["joules"] is not None
    assert [one["name"] for one in result["windows"]] == ["epoch"]


def test_windows_of_the_command_are_listed(
    emlio: Emlio, emlio_bin: str, shards: Path, serve: Serve, bare_root: Path
) -> None:
    daemon = serve({"train": shards}, ["--no-energy"])
    pull = [emlio_bin, "pull", f"{daemon.endpoint}/train", "--batch-size", 10, "--epochs", 2]
    done = emlio("energy", "record", "--root", bare_root, "--", *pull)
    rows = [line.split() for line in done.stderr.splitlines() if line.startswith("epoch ")]
    assert [row[1] for row in rows] == ["0", "1"]
    assert all("n/a" in row and "unavailable" in row for row in rows)


def test_a_node_that_is_lost_before_its_first_figures_makes_the_total_incomplete(
    emlio: Emlio, store: Path, energy_here: Energy, two_hosts: Agent
) -> None:
    agent, endpoint = two_hosts
    result = energy_here(
        "record", "--node", endpoint, "--", "sh", "-c", f"kill -KILL {agent.pid}; sleep 1.5"
    )
    assert result["exit_code"] == 0
    assert result["nodes"][0]["state"] == "lost"
    assert result["total"]["state"] == "measured"
    assert result["run"]["total"]["joules"] is None
    text = emlio("energy", "report", result["run"]["id"], "--store", store).stdout
    assert "there is lost" in text or "node is lost" in text


def test_a_run_counts_once_in_a_report(emlio: Emlio, energy_here: Energy, store: Path) -> None:
    run = energy_here("record", "--", "sleep", "1")["run"]["id"]
    with contextlib.closing(sqlite3.connect(store)) as db, db:
        db.execute('UPDATE run SET labels = \'{"arm": "a"}\'')
    twice = emlio("energy", "report", "--store", store, run, run, code=2)
    assert "named twice" in twice.stderr
    arms = ["--where", "arm=a", "--against", "arm=a"]
    both = emlio("energy", "report", "--store", store, *arms, code=2)
    assert "two arms" in both.stderr


def test_labels_that_choose_runs_must_all_hold(
    emlio: Emlio, energy_here: Energy, store: Path
) -> None:
    energy_here("record", "--", "true")
    report = ["energy", "report", "--store", store, "--where", "arm=a"]
    assert "no run has both" in emlio(*report, "--where", "arm=b", code=2).stderr
    assert "--where" in emlio(*report, "some-run", code=2).stderr
    # Said twice it is the same.
    assert "no run has the labels" in emlio(*report, "--where", "arm=a", code=1).stderr


def test_nodes_given_by_address_are_summed_behind_a_barrier(
    emlio_bin: str, tmp_path: Path, energy: Energy, energy_here: Energy
) -> None:
    with (
        two_sockets(tmp_path / "there", "there") as there,
        running_agent(emlio_bin, tmp_path, "--root", there.root, "--node", "there") as (
            agent,
            endpoint,
        ),
    ):
        result = energy_here("record", "--node", endpoint, "--", "sleep", "1.5")
        same = energy("record", "--root", there.root, "--node", endpoint, "--", "sleep", "1.5")
    assert agent.returncode == 0
    total = result["run"]["total"]
    assert total["state"] == "measured"
    assert total["joules"] == pytest.approx(2 * TWO_SOCKETS_WATTS * result["seconds"], rel=CLOSE)
    assert total["nodes"][1] == "there"
    assert 0 <= result["run"]["start_spread_ms"] < 1000
    assert 0 <= result["run"]["stop_spread_ms"] < 1000
    assert result["nodes"][0]["started"]["monotonic_ns"] > 0
    # One host counts once.
    assert same["nodes"][0]["state"] == "same_host"
    assert same["run"]["total"]["joules"] == same["total"]["joules"]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--node", "no-port"], 2, "--node no-port"),
        (["--node", "host:0"], 2, "--node host:0"),
        (["--json", "none/record.json"], 1, "No such file or directory"),
        (["--json", "."], 1, "Is a directory"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_work_is_told_before_the_command_starts(
    emlio: Emlio, tmp_path: Path, args: list[str], code: int, says: str
) -> None:
    ran = tmp_path / "ran"
    done = emlio("energy", "record", "--no-store", *args, "--", "touch", ran, code=code)
    assert says in done.stderr
    assert not ran.exists()


@pytest.mark.parametrize(("ends_with", "code"), [(7, 7), (0, 1)])
def test_a_report_that_cannot_be_written_at_the_end_does_not_hide_how_the_command_ended(
    emlio: Emlio, ends_with: int, code: int
) -> None:
    done = emlio(
        *("energy", "record", "--no-store", "--json", "/dev/full"),
        *("--", "sh", "-c", f"exit {ends_with}"),
        code=code,
    )
    assert "No space left on device" in done.stderr


def test_a_node_that_is_not_there_makes_the_total_incomplete(energy_here: Energy) -> None:
    result = energy_here(
        *("record", "--connect-timeout-s", "0.3", "--node", "127.0.0.1:1"), *("--", "sleep", "1")
    )
    assert result["total"]["joules"] is not None
    assert result["run"]["total"]["state"] == "incomplete"
    assert result["run"]["total"]["joules"] is None
    assert result["run"]["total"]["missing"][0]["node"] == "tcp://127.0.0.1:1"
    assert result["nodes"][0]["total"]["joules"] is None
