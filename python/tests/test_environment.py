# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Rank, world size and job as launchers leave them in the environment."""

import pytest

from emlio import InvalidArgumentError
from emlio._environment import Placement, detect, resolve

TORCHRUN = {
    "RANK": "2",
    "WORLD_SIZE": "4",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "run-7",
}
SLURM = {
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "8",
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "3",
}


def test_no_launcher_is_rank_0_of_1() -> None:
    assert detect({"PATH": "/bin"}) == Placement(0, 1, "")


def test_torchrun() -> None:
    assert detect(TORCHRUN) == Placement(2, 4, "run-7")


@pytest.mark.parametrize("run_id", [None, "none"])
def test_torchrun_without_a_run_id_is_named_after_its_rendezvous(run_id: str | None) -> None:
    environment = {k: v for k, v in TORCHRUN.items() if k != "TORCHELASTIC_RUN_ID"}
    if run_id is not None:
        environment["TORCHELASTIC_RUN_ID"] = run_id
    assert detect(environment).job == "torchrun-node1:29500"


def test_slurm() -> None:
    assert detect(SLURM) == Placement(1, 8, "slurm-77.3")


def test_slurm_with_nothing_but_rank_and_size() -> None:
    assert detect({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}) == Placement(0, 2, "")


def test_the_batch_script_of_a_slurm_job_is_a_process_alone() -> None:
    # sbatch sets these for the script, which runs once.
    script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "77"}
    assert detect(script) == Placement(0, 1, "")


def test_torchrun_inside_slurm_counts() -> None:
    assert detect(SLURM | TORCHRUN) == Placement(2, 4, "run-7")


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({"RANK": "0"}, "WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "RANK"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK='-1'"),
        ({"RANK": "zero", "WORLD_SIZE": "2"}, "RANK='zero'"),
        ({"SLURM_PROCID": "0"}, "SLURM_NTASKS"),
        ({"SLURM_PROCID": "9", "SLURM_NTASKS": "8"}, "SLURM_PROCID=9"),
    ],
)
def test_a_contradictory_environment_is_an_error_that_names_the_variable(
    environment: dict[str, str], names: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=names):
        detect(environment)


def test_what_the_user_says_goes_before_the_environment() -> None:
    assert resolve(TORCHRUN, 0, 2, None) == Placement(0, 2, "run-7")
    assert resolve(TORCHRUN, None, None, "mine") == Placement(2, 4, "mine")
    assert resolve({}, 1, 2, None) == Placement(1, 2, "")


def test_a_process_alone_has_no_job() -> None:
    assert resolve(TORCHRUN, 0, 1, None) == Placement(0, 1, "")


@pytest.mark.parametrize(("rank", "world_size"), [(0, None), (None, 2), (2, 2), (-1, 2), (0, 0)])
def test_half_or_impossible_placements_are_refused(
    rank: int | None, world_size: int | None
) -> None:
    with pytest.raises(InvalidArgumentError, match="rank"):
        resolve({}, rank, world_size, None)
