# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""`emlio energy` baseline, stages, report, meter and overhead, on a host whose power is known."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from command_line import Emlio, Energy
from dithered_job import IDLE_WATTS, STAGE_WATTS
from energy_host import TWO_SOCKETS_WATTS, EnergyHost, Zone

DITHERED = Path(__file__).with_name("dithered_job.py")

# On a busy machine whoever moves counters is late.
CLOSE = 0.15

# Takes 0.3 s to read, 0.2 s more to preprocess, and 0.4 s to train beside both.
PIPELINE = """
case $EMLIO_STAGES in
  read | preprocess) exec sleep 0.3 ;;
  read,preprocess) exec sleep 0.5 ;;
  train | read,train | preprocess,train) exec sleep 0.4 ;;
  read,preprocess,train) exec sleep 0.6 ;;
  *) exit 9 ;;
esac
"""
NODE_FACTS = [
    "cpu",
    "sockets",
    "memory",
    "gpu",
    "nic",
    "kernel",
    "driver",
    "governor",
    "turbo",
    "gpu_power_limit",
    "environment",
]


def test_stages_are_run_apart_and_reported(
    emlio: Emlio, tmp_path: Path, store: Path, energy: Energy, energy_here: Energy
) -> None:
    # A busy machine may cost a run or two its resolution.
    often = ["--interval-ms", "20", "--rounds", "6", "--shapley"]
    result = energy_here("stages", *often, "--", "sh", "-c", PIPELINE)
    sets = {one["stages"]: one for one in result["ladder"]["sets"]}
    assert set(sets) == {"read", "read,preprocess", "read,preprocess,train", "train"}
    for one in sets.values():
        assert 5 <= one["n"] <= 6
        joules = one["total_joules"]["mean"]
        assert joules == pytest.approx(TWO_SOCKETS_WATTS * one["seconds"]["mean"], rel=CLOSE)
    whole = result["ladder"]["whole"]["total_joules"]["value"]
    marginal = [one["total_joules"]["value"] for one in result["ladder"]["marginal"]]
    assert sum(marginal) == pytest.approx(whole)
    assert result["ladder"]["interaction"]["total_joules"]["interval_95"]
    shares = [one["total_joules"]["value"] for one in result["shapley"]["shares"]]
    assert len(result["shapley"]["sets"]) == 7
    assert sum(shares) == pytest.approx(whole)
    assert all(share > 0 for share in shares)
    assert result["ladder"]["unpaced"] is True
    assert result["ladder"]["whole"]["net_joules"] is None
    assert "emlio energy baseline" in result["no_baseline"]
    orders = [run["labels"]["stages"] for run in result["these"]["runs"]]
    rounds = {tuple(orders[i : i + 7]) for i in range(0, 42, 7)}
    assert len(orders) == 42
    assert len(rounds) > 1

    page = tmp_path / "page.html"
    facts = tmp_path / "facts.json"
    said = {
        "work": dict.fromkeys(["dataset", "model", "batch", "precision"], "x")
        | {"bytes": 5e8, "samples": 1000, "sample_bytes": "500 kB", "epochs": 1},
        "path": dict.fromkeys(["rtt", "bandwidth", "storage", "cache"], "x"),
        "software": dict.fromkeys(
            ["loader", "version", "configuration", "workers", "prefetch"], "x"
        ),
        "included": {"switches": "no", "psu_losses": "no"},
    }
    facts.write_text(json.dumps(said))
    select = ["--store", store, "--where", f"experiment={result['experiment']}"]
    report = energy("report", *select, "--facts", facts)
    assert report["headline"] is None
    assert "system.turbo" in report["no_headline"]
    # What a report finds itself nobody may say.
    facts.write_text(json.dumps(said | {"quality": {"meter": "validated by NIST"}}))
    refused = energy("report", *select, "--facts", facts, code=2)
    assert "quality.meter" in refused["error"]["message"]
    node = report["nodes"][0]["name"]
    facts.write_text(json.dumps(said | {"nodes": {node: dict.fromkeys(NODE_FACTS, "x")}}))
    report = energy("report", *select, "--facts", facts, "--html", page)
    assert report["no_headline"] == ""
    assert "total energy" in report["headline"]
    assert "no baseline subtracted" in report["headline"]
    assert "not validated against a meter" in report["headline"]
    detail = [(one["group"], one["text"]) for one in report["headline_detail"]]
    assert [group for group, _ in detail] == [
        *("claim", "work", "path", "software", "statistics", "included", "quality", "system")
    ]
    assert f"{node}: cpu: x; sockets: x; " in dict(detail)["system"]
    assert "; 95 %: " in dict(detail)["statistics"]
    assert report["these"]["counted"] >= 5
    per_gb = report["these"]["per_unit"][0]
    assert per_gb["unit"] == "GB"
    assert per_gb["total_joules"]["value"] == pytest.approx(2 * whole, rel=1e-6)
    html = page.read_text()
    plots = re.findall("<svg.*?</svg>", html, re.DOTALL)
    assert len(plots) == 3
    for plot in plots:
        ElementTree.fromstring(plot)
    assert "interaction" in plots[1]
    assert 'class="err"' in plots[2]
    text = emlio("energy", "report", *select).stdout
    assert "Stages: marginal energies of the ladder" in text


def test_stages_of_a_job_that_dithers_are_told_apart(
    tmp_path: Path, store: Path, energy: Energy
) -> None:
    package = Zone("intel-rapl:0", "package-0", IDLE_WATTS, watts_file="watts")
    with EnergyHost(tmp_path / "host", [package]) as host:
        common = ["--root", host.root, "--store", store, "--interval-ms", "20", "--block-ms", "300"]
        job = ["--", sys.executable, DITHERED, host.root / "watts"]
        result = energy("stages", *common, "--dither", "--blocks", "48", *job)
    regression = result["regression"]
    assert regression["r_squared"] > 0.95
    assert regression["constant_watts"]["value"] == pytest.approx(IDLE_WATTS, abs=10)
    found = {one["name"]: one for one in regression["coefficients"]}
    assert found.keys() == STAGE_WATTS.keys()
    for stage, watts in STAGE_WATTS.items():
        assert found[stage]["watts"]["value"] == pytest.approx(watts, abs=10)
        low, high = found[stage]["watts"]["interval_95"]
        assert low < found[stage]["watts"]["value"] < high
        assert found[stage]["vif"] < 10
    # The same run again, from the store.
    again = energy(
        *("stages", "--store", store, "--block-ms", "300"), *("--regress", result["run"])
    )
    assert again["regression"] == regression


def test_runs_that_fail_are_listed_and_not_counted(energy_here: Energy) -> None:
    result = energy_here("stages", "--", "sh", "-c", "test $EMLIO_STAGES != train", code=1)
    assert "T has 0" in result["no_stages"]
    failed = [run for run in result["these"]["runs"] if run["failure"]]
    assert len(failed) == 5
    assert {run["failure"] for run in failed} == {"exit status 1"}


def test_a_host_without_counters_gives_a_report_without_joules(
    tmp_path: Path, bare_root: Path, store: Path, energy: Energy
) -> None:
    energy("stages", "--root", bare_root, "--store", store, "--", "true", code=1)
    model = tmp_path / "model.json"
    model.write_text(
        json.dumps({"name": "tdp", "source": "a data sheet", "error_percent": 40, "watts": 100})
    )
    report = energy("report", "--store", store, "--model", model)
    modelled = report["modelled"][0]
    assert modelled["joules"] > 0
    assert modelled["label"] == "modelled"
    assert "stated error 40 %" in modelled["cause"]
    # It is in no total, and no headline.
    assert report["these"]["energy"]["total_joules"] is None
    assert report["these"]["energy"]["fix"]
    assert report["these"]["runs"][0]["total"]["joules"] is None
    assert report["these"]["runs"][0]["total"]["cause"]
    assert report["headline"] is None


def test_a_baseline_of_short_runs_is_refused(energy_here: Energy) -> None:
    result = energy_here("baseline", "--", "sleep", "0.4", code=1)
    assert result["baseline"] is None
    assert len(result["runs"]) == 3
    assert "at least 60 s are needed" in result["error"]["message"]


def test_short_runs_are_no_levels_for_a_meter(
    tmp_path: Path, store: Path, energy: Energy, energy_here: Energy
) -> None:
    taken = energy_here("baseline", "--", "sleep", "1.2", code=1)
    run = taken["runs"][0]
    series = tmp_path / "meter.csv"
    compare = ("meter", "--store", store, "--series", series, run, run, run)
    series.write_text("time,watts\n1780000000,100\n")
    result = energy(*compare, code=1)
    assert "no time in common" in result["error"]["message"]
    series.write_text("time,watts\nnow,100\n")
    result = energy(*compare, code=1)
    assert "line 2: no time" in result["error"]["message"]


def test_the_monitor_is_compared_with_its_absence(host: EnergyHost, energy: Energy) -> None:
    result = energy("overhead", "--root", host.root, "--", "sleep", "0.3")
    assert len(result["pairs"]) == 10
    low, high = result["overhead"]["interval_95"]
    assert low <= result["overhead"]["throughput_change_percent"] <= high
    assert result["overhead"]["core_percent"]["value"] > 0


@pytest.mark.parametrize(
    "args",
    [
        ("baseline", "--store", "x", "--seconds", "59"),
        ("baseline", "--store", "x", "--runs", "2"),
        ("baseline", "--store", "x", "--kind", "running-without-io"),
        ("stages", "--store", "x"),
        ("stages", "--store", "x", "--rounds", "4", "--", "true"),
        ("overhead", "--pairs", "9", "--", "true"),
        ("record", "--store", "x", "--no-store", "--", "true"),
        ("meter", "--store", "x", "--series", "y", "a", "b"),
    ],
)
def test_wrong_command_lines_are_refused(emlio: Emlio, args: tuple[str, ...]) -> None:
    emlio("energy", *args, code=2)
