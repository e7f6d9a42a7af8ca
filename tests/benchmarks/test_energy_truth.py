# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The hosts of benchmarks/energy_truth: their truth, the counters that follow it, the verdicts."""

import json
import math
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.energy_truth import work
from benchmarks.energy_truth.__main__ import PASSED, TOOLS, Run, passes, results, table
from benchmarks.energy_truth.host import Drive, cpuinfo
from benchmarks.energy_truth.judge import judge
from benchmarks.energy_truth.running import (
    TooBusyError,
    namespaces,
    on_host,
    read,
    stand_in_for_nvml,
)
from benchmarks.energy_truth.scenarios import SCENARIOS, Gpu, Scenario, Zone
from benchmarks.energy_truth.tool import REQUIREMENTS, Installed, Reading, Tool, reading_of
from benchmarks.energy_truth.with_carbontracker import joules_in
from benchmarks.energy_truth.with_emlio import Emlio, reading_of_record
from benchmarks.energy_truth.with_perf import reading_of_lines
from benchmarks.energy_truth.with_perun import reading_of_report
from benchmarks.energy_truth.with_pyjoules import parts_of
from benchmarks.peers.environments import Environments, default_cache
from benchmarks.peers.peer import Tools
from benchmarks.processes import BenchmarkError

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
SQUARE_WAVE = BY_NAME["square-wave"].gpus[0]


@pytest.fixture
def needs_namespaces() -> None:
    try:
        namespaces()
    except BenchmarkError as error:
        pytest.skip(f"NOT TESTED: {error}")


def done(
    out: str = "", errors: str = "", returncode: int = 0
) -> "subprocess.CompletedProcess[str]":
    return subprocess.CompletedProcess(["tool"], returncode, out, errors)


# --- the truth


def test_there_are_eleven_scenarios_of_different_names() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == 11


@pytest.mark.parametrize(
    ("name", "watts"),
    [
        ("plain", {"cpu": 80, "dram": 18}),
        ("psys", {"cpu": 80, "dram": 18}),
        ("wrap", {"cpu": 80, "dram": 18}),
        ("fast-wrap", {"cpu": 160}),
        ("mmio", {"cpu": 80, "dram": 18}),
        ("dies", {"cpu": 80, "dram": 18}),
        ("core", {"cpu": 50}),
        ("gpu-power", {"cpu": 80, "dram": 18, "gpu": 350}),
        ("square-wave", {"cpu": 80, "dram": 18, "gpu": 350}),
    ],
)
def test_each_joule_is_in_the_truth_once(name: str, watts: dict[str, float]) -> None:
    truth = BY_NAME[name].truth(100.0, 113.0)  # ten periods of the square wave
    assert truth == pytest.approx({part: 13 * each for part, each in watts.items()})


@pytest.mark.parametrize("name", ["unreadable", "none"])
def test_nobody_knows_what_cannot_be_read(name: str) -> None:
    assert BY_NAME[name].truth(0.0, 10.0) == {}


@pytest.mark.parametrize(("begin", "end"), [(0.0, 0.1), (0.2, 0.3), (5.05, 17.9), (1.2, 1.4)])
def test_the_joules_of_a_square_wave_are_the_integral_of_its_power(
    begin: float, end: float
) -> None:
    def watts(at: float) -> float:
        return 350 * (3 if math.fmod(at, 1.3) < 0.26 else 0.5)

    steps = 200_000
    step = (end - begin) / steps
    integral = sum(watts(begin + (i + 0.5) * step) for i in range(steps)) * step
    assert SQUARE_WAVE.joules(begin, end) == pytest.approx(integral, abs=0.05)


@pytest.mark.parametrize("gpu", [SQUARE_WAVE, Gpu("GPU-a", 120, refresh_ms=100)])
def test_the_library_in_place_of_nvml_counts_the_same_joules(
    gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpus").write_text(gpu.stub_line() + "\n")
    # A process of its own: the library keeps its time for as long as it is loaded.
    program = f"""
import ctypes, json
library = ctypes.CDLL({str(stand_in_for_nvml())!r})
assert library.nvmlInit_v2() == 0
device, value = ctypes.c_void_p(), ctypes.c_ulonglong()
assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
shown = []
for seconds in (0, 0.1, 7.5, 7.6, 130):
    library.StubNvmlSetTimeNs(ctypes.c_int64(round(seconds * 1e9)))
    assert library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(value)) == 0
    shown.append((seconds, value.value / 1000))
print(json.dumps(shown))
"""
    monkeypatch.setenv("EMLIO_STUB_NVML", str(tmp_path / "gpus"))
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for seconds, joules in json.loads(ran.stdout):
        assert joules - gpu.offset_j == pytest.approx(gpu.joules(0, seconds), abs=0.01)


def test_a_counter_follows_its_power_and_begins_again_at_its_range() -> None:
    zone = Zone("intel-rapl:0", "package-0", 100, 300_000_000, 400_000_000)
    assert zone.counter_uj(0.5, 0) == 350_000_000
    assert zone.counter_uj(1.5, 0) == 50_000_000


def test_a_counter_that_wraps_once_does_so_when_it_is_told() -> None:
    (zone,) = (zone for zone in BY_NAME["wrap"].zones if zone.wraps_once)
    assert zone.counter_uj(7.9, lead_s=8) > zone.range_uj - 10_000_000
    assert zone.counter_uj(8.1, lead_s=8) < 10_000_000


# --- the driver


def test_the_driver_keeps_to_the_closed_form_over_wraps(tmp_path: Path) -> None:
    zones = [
        Zone("intel-rapl:0", "package-0", 50, 11_000_000_000),
        Zone("intel-rapl:1", "package-1", 100, 0, 7_000_003),  # every 70 ms
    ]
    files = [tmp_path / str(at) for at in range(2)]
    rounds = late = 0
    with Drive(zones, files, 0) as drive:
        end = time.monotonic() + 1
        while (before := time.monotonic()) < end:
            texts = [file.read_text() for file in files]
            after = time.monotonic()
            for zone, text in zip(zones, texts, strict=True):
                shown = int(text)  # a whole number at any moment
                # On a busy machine the driver may be late, but it never runs ahead: that would be
                # nearly a whole turn behind.
                latest = zone.counter_uj(after - drive.begin_s, 0)
                behind_uj = (latest - shown) % zone.range_uj
                late += behind_uj > zone.watts * (after - before + 20e-3) * 1e6
            rounds += 1
    assert rounds > 10
    assert late < rounds / 2


def test_the_processor_is_the_same_on_every_machine() -> None:
    text = (
        "vendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n"
        "flags\t\t: fpu hypervisor sse\n"
    )
    bare = cpuinfo(text, hypervisor=False)
    assert "GenuineIntel" in bare
    assert "Xeon" in bare
    assert "hypervisor" not in bare
    assert cpuinfo(text, hypervisor=True).count("hypervisor") == 1


# --- the host

SHOW = """
import json, time
from pathlib import Path
zones = sorted(Path("/sys/class/powercap").glob("*:*"))
def read():
    return {zone.name: int((zone / "energy_uj").read_text()) for zone in zones}
begin, first = time.monotonic(), read()
time.sleep(0.5)
end, last = time.monotonic(), read()
names = {zone.name: (zone / "name").read_text().strip() for zone in zones}
print(json.dumps([end - begin, {z: (last[z] - first[z]) * 1e-6 for z in last}, names]))
"""


@pytest.mark.usefixtures("needs_namespaces")
def test_programs_on_a_host_see_its_counters_in_the_usual_places() -> None:
    ran = on_host(BY_NAME["psys"], 1, [sys.executable, "-c", SHOW])
    seconds, joules, names = json.loads(ran.stdout)
    assert names == {zone.zone: zone.name for zone in BY_NAME["psys"].zones}
    for zone in BY_NAME["psys"].zones:
        assert joules[zone.zone] == pytest.approx(zone.watts * seconds, rel=0.15)


@pytest.mark.usefixtures("needs_namespaces")
def test_a_host_needs_no_root() -> None:
    user = ("unshare", "--user", "--map-root-user", "--mount", "--net")
    if subprocess.run([*user, "true"], capture_output=True).returncode != 0:
        pytest.skip("NOT TESTED: no user namespaces here")
    ran = on_host(BY_NAME["plain"], 1, [sys.executable, "-c", SHOW], prefix=user)
    assert json.loads(ran.stdout)[1].keys() == {zone.zone for zone in BY_NAME["plain"].zones}


@pytest.mark.usefixtures("needs_namespaces")
def test_counters_of_an_unreadable_host_are_refused_to_root_too() -> None:
    ran = on_host(BY_NAME["unreadable"], 1, [sys.executable, "-c", SHOW])
    assert "PermissionError" in ran.stderr


@pytest.mark.usefixtures("needs_namespaces")
def test_a_host_without_counters_has_no_powercap() -> None:
    ran = on_host(BY_NAME["none"], 1, ["ls", "/sys/class/powercap"])
    assert "No such file" in ran.stderr


@pytest.mark.usefixtures("needs_namespaces")
def test_a_host_whose_counters_stood_still_is_no_reference() -> None:
    with pytest.raises(TooBusyError, match="counters stood"):
        on_host(BY_NAME["plain"], 1, ["sleep", "0.1"], max_stood_s=0)


@pytest.mark.usefixtures("needs_namespaces")
def test_work_that_begins_behind_the_wrap_is_done_again() -> None:
    class Late(Tool):
        name = "late"
        lead_s = 0.0

        def command(self, scratch: Path) -> list[str]:
            return [sys.executable, work.__file__]

    late = Late(Installed(Environments(Path("/no")), Path("/no")))
    with pytest.raises(TooBusyError, match="before the work began"):
        read(late, BY_NAME["wrap"], tries=2)


@pytest.mark.usefixtures("needs_namespaces")
def test_a_command_that_is_not_there_is_no_answer() -> None:
    with pytest.raises(BenchmarkError, match="no-such-tool"):
        on_host(BY_NAME["none"], 1, ["/nowhere/no-such-tool"])


# --- what the tools print


def test_an_answer_is_found_among_what_a_library_prints() -> None:
    line = '{"parts": {"cpu": 480.0}, "begin_s": 1.0, "end_s": 7.0, "seconds": 6.1}'
    reading = reading_of(done(f"[info] hello\n{line}\n", "a warning"))
    assert reading.parts == {"cpu": 480.0}
    assert reading.window() == pytest.approx((0.9, 7.0))
    assert "a warning" in reading.said


def test_a_program_that_fails_has_no_numbers_but_its_message() -> None:
    reading = reading_of(done("", "PermissionError: energy_uj", 1))
    assert (reading.parts, reading.failed) == ({}, True)
    assert "PermissionError" in reading.said


def test_a_program_that_ends_well_without_an_answer_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="no answer"):
        reading_of(done("nothing"))


def test_the_window_is_found_in_what_a_command_around_the_work_prints() -> None:
    assert work.printed(done('perun\n{"begin_s": 2.0, "end_s": 8.0}\n')) == (2.0, 8.0)
    with pytest.raises(BenchmarkError, match="did not run"):
        work.printed(done("", "no such file", 2))


def metric(value: float, magnitude: float = 1.0) -> dict[str, Any]:
    return {"sum": value, "mean": value, "metric_md": {"unit": "J", "mag": magnitude}}


def test_perun_reports_parts_and_their_total() -> None:
    report = {
        "metrics": {
            "runtime": metric(6.1),
            "energy": metric(0.588, 1000.0),
            "cpu_energy": metric(480),
            "dram_energy": metric(108),
            "cpu_power": metric(80),
        }
    }
    reading = reading_of_report(report)
    assert reading.parts == {"cpu": 480, "dram": 108}
    assert reading.seconds == 6.1
    assert reading.headline == pytest.approx(588)


def test_perun_without_counters_reports_no_energy() -> None:
    assert reading_of_report({"metrics": {"runtime": metric(6.1)}}).parts == {}


def test_perf_prints_joules_and_how_long_it_counted() -> None:
    reading = reading_of_lines(
        "308.97,Joules,power/energy-pkg/,6179447911,100.00,,\n"
        "61.79,Joules,power/energy-ram/,6179450000,100.00,,\n"
        "<not supported>,Joules,power/energy-psys/,0,100.00,,\n"
    )
    assert reading.parts == {"cpu": 308.97, "dram": 61.79}
    assert reading.seconds == pytest.approx(6.179, abs=0.001)


def test_carbontracker_multiplies_by_the_building() -> None:
    log = (
        "Only predicted and actual consumptions are multiplied by a PUE coefficient of 1.58 (D B)\n"
        "Actual consumption:\n\tTime:\t0:00:06\n\tEnergy:\t0.000064603063 kWh\n\tCO2eq:\t0.02 g\n"
    )
    assert joules_in(log) == pytest.approx(147.2, abs=0.1)
    assert joules_in("CarbonTracker: no components") is None


def test_pyjoules_cores_are_inside_its_packages() -> None:
    energies = {"package_0": 300e6, "core_0": 210e6, "dram_0": 60e6, "nvidia_gpu_0": 600e3}
    assert parts_of(energies) == {"cpu": 300, "dram": 60, "gpu": 600}


def record(total: float | None, **domains: dict[str, Any]) -> dict[str, Any]:
    base = {"in_total": True, "joules": None}
    return {
        "begin_monotonic_ns": 5_000_000_000,
        "seconds": 6.0,
        "total": {"joules": total},
        "domains": [{"id": name, **base, **domain} for name, domain in domains.items()],
    }


def test_emlio_domains_outside_the_total_are_no_part_of_it() -> None:
    reading = reading_of_record(
        record(
            588,
            package={"kind": "package", "joules": 480},
            dram={"kind": "dram", "joules": 108},
            core={"kind": "core", "joules": 330, "in_total": False},
        )
    )
    assert reading.parts == {"cpu": 480, "dram": 108}
    assert (reading.window(), reading.headline) == ((5.0, 11.0), 588)


def test_emlio_without_a_total_has_causes_and_no_number() -> None:
    reading = reading_of_record(
        record(
            None,
            package={"kind": "package", "cause": "cannot open energy_uj: Permission denied"},
            dram={"kind": "dram", "joules": 108},
        )
    )
    assert reading.parts == {}
    assert "Permission denied" in reading.said


# --- what it is worth


@pytest.mark.parametrize(
    ("scenario", "parts", "said", "kind"),
    [
        ("plain", {"cpu": 480, "dram": 108}, "", "right"),
        ("plain", {"cpu": 485, "dram": 108}, "", "right"),
        ("plain", {"cpu": 480}, "", "wrong"),
        ("plain", {"cpu": 487, "dram": 108}, "", "wrong"),
        ("plain", {}, "permission denied", "silent"),
        ("unreadable", {}, "Permission denied: energy_uj", "n/a"),
        ("unreadable", {}, "no GPU", "silent"),
        ("unreadable", {"cpu": 480, "dram": 108}, "permission denied", "invented"),
        ("unreadable", {"cpu": 0}, "permission denied", "invented"),
        ("none", {}, "this is a virtual machine", "n/a"),
        ("none", {}, "No powercap interface", "n/a"),
        ("none", {"cpu": 65.2}, "", "invented"),
        ("fast-wrap", {"cpu": 560}, "", "wrong"),
        ("fast-wrap", {}, "more than one range could have been used", "n/a"),
    ],
)
def test_an_answer_is_judged_over_its_own_window(
    scenario: str, parts: dict[Any, float], said: str, kind: str
) -> None:
    reading = Reading(parts, 10, 16, said=said)
    assert judge(BY_NAME[scenario], Emlio, reading).kind == kind


def test_an_answer_that_ended_with_an_error_is_no_honest_absence() -> None:
    reading = Reading({}, said="TypeError: reduce() of empty iterable", failed=True)
    verdict = judge(BY_NAME["none"], Emlio, reading)
    assert (verdict.kind, verdict.passed) == ("failed", False)


def test_parts_that_a_tool_does_not_claim_cost_it_nothing() -> None:
    class PackagesOnly(Tool):
        covers = frozenset({"cpu"})

    verdict = judge(BY_NAME["plain"], PackagesOnly, Reading({"cpu": 480}, 10, 16))
    assert (verdict.kind, verdict.truth) == ("right", 480)


def run(tool: str, scenario: Scenario, kind: str, error: float | None = None) -> Run:
    return Run(tool, "1", scenario.name, kind, 1.0, 1.0, error, {}, None, 6.0, "")


def test_a_scenario_is_passed_when_all_its_runs_are() -> None:
    runs = [run("emlio", scenario, "right", 0.001) for scenario in SCENARIOS]
    assert passes(runs, "emlio") == 11
    assert passes([*runs, run("emlio", SCENARIOS[3], "wrong", -0.4)], "emlio") == 10
    assert passes(runs[1:], "emlio") is None
    (count,) = (result for result in results(runs) if result.metric == PASSED)
    assert (count.value, count.unit) == (11, "of 11")


def test_the_table_shows_failures_in_bold() -> None:
    runs = [run("emlio", SCENARIOS[0], "right", 0.0012), run("zeus", SCENARIOS[0], "wrong", 1.75)]
    (line,) = (line for line in table(runs).splitlines() if "`plain`" in line)
    assert line.endswith("| +0.12 % | **+175 %** |")


# --- the tools themselves


def test_every_tool_of_a_package_has_its_pinned_environment() -> None:
    files = {path.stem for path in REQUIREMENTS.glob("*.txt")}
    assert files == {name for name, tool in TOOLS.items() if tool.package}
    for name in files:
        assert TOOLS[name](
            Installed(Environments(Path("/no"), REQUIREMENTS), Path("/no"))
        ).version()


@pytest.mark.usefixtures("needs_namespaces")
def test_installed_tools_answer_on_a_plain_host() -> None:
    installed = Installed(Environments(default_cache(), REQUIREMENTS), Path("/nowhere"))
    there = [
        tool
        for name in TOOLS
        if TOOLS[name].package and not (tool := TOOLS[name](installed)).missing()
    ]
    if not there:
        pytest.skip("NOT TESTED: none is installed; benchmarks/energy_truth/run --install")
    with ThreadPoolExecutor(3) as pool:
        readings = list(pool.map(lambda tool: read(tool, BY_NAME["plain"]), there))
    for tool, reading in zip(there, readings, strict=True):
        assert reading.parts.get("cpu", 0) > 0, f"{tool.name}: {reading.said}"


@pytest.mark.usefixtures("needs_namespaces")
def test_emlio_passes_all_scenarios(tools: Tools, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "benchmarks.energy_truth", "--quick"),
        *("--emlio", str(tools.emlio), "--json", str(tmp_path / "quick.json")),
    ]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((tmp_path / "quick.json").read_text())
    (count,) = (one for one in report["results"] if one["metric"] == PASSED)
    assert count["value"] == 11, ran.stdout
    for one in report["runs"]:
        assert sum(one["parts"].values()) == pytest.approx(one["headline"] or 0)
