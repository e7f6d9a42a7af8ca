# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, as torchrun and Slurm tell it by environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass

from emlio._core import InvalidArgumentError


@dataclass(frozen=True)
class Placement:
    """The place of a process in its training job.

    Attributes:
        rank: 0 to world_size - 1.
        world_size: Number of processes that share the data.
        job: Common to all ranks of the job, restarts included; empty when there is no job.
    """

    rank: int = 0
    world_size: int = 1
    job: str = ""


def detect(environment: Mapping[str, str]) -> Placement:
    """Reads the placement from `environment`; rank 0 of 1 when no launcher has left a trace.

    torchrun goes before Slurm: inside a Slurm job it starts the processes that count.

    Raises:
        InvalidArgumentError: The variables are incomplete, no numbers, or contradict each other.
    """
    if "RANK" in environment or "WORLD_SIZE" in environment:
        rank, world_size = _pair(environment, "RANK", "WORLD_SIZE")
        return Placement(rank, world_size, _torchrun_job(environment))
    if "SLURM_PROCID" in environment and not _is_batch_script(environment):
        rank, world_size = _pair(environment, "SLURM_PROCID", "SLURM_NTASKS")
        return Placement(rank, world_size, _slurm_job(environment))
    return Placement()


def resolve(
    environment: Mapping[str, str],
    rank: int | None,
    world_size: int | None,
    job: str | None,
) -> Placement:
    """What the user has said, completed by the environment.

    Raises:
        InvalidArgumentError: Only one of rank and world_size is given, or the rank lies outside.
    """
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError("give both rank and world_size, or neither of them")
    if rank is None or world_size is None:
        found = detect(environment)
    else:
        found = Placement(rank, world_size, _job(environment))
        _check(rank, world_size, "rank", "world_size")
    # A process alone has nobody to agree with.
    agreed = (found.job if job is None else job) if found.world_size > 1 else ""
    return Placement(found.rank, found.world_size, agreed)


def _pair(environment: Mapping[str, str], rank_name: str, world_name: str) -> tuple[int, int]:
    values = []
    for name, other in ((rank_name, world_name), (world_name, rank_name)):
        text = environment.get(name)
        if text is None:
            raise InvalidArgumentError(
                f"the environment has {other} but not {name}; set both, or give rank and world_size"
            )
        if not text.isdecimal():
            raise InvalidArgumentError(f"the environment variable {name}={text!r} is not a number")
        values.append(int(text))
    _check(values[0], values[1], rank_name, world_name)
    return values[0], values[1]


def _check(rank: int, world_size: int, rank_name: str, world_name: str) -> None:
    if not 0 <= rank < world_size:
        raise InvalidArgumentError(
            f"{rank_name}={rank} is not below {world_name}={world_size} and at least 0"
        )


def _is_batch_script(environment: Mapping[str, str]) -> bool:
    # sbatch runs its script once, as if it were task 0, though the variables speak of all tasks of
    # the allocation. Only processes that srun starts belong to a step.
    return (
        environment.get("SLURM_PROCID") == "0"
        and "SLURM_JOB_ID" in environment
        and "SLURM_STEP_ID" not in environment
        and "SLURM_STEPID" not in environment
    )


def _job(environment: Mapping[str, str]) -> str:
    if "RANK" in environment or "TORCHELASTIC_RUN_ID" in environment:
        return _torchrun_job(environment)
    return _slurm_job(environment)


def _torchrun_job(environment: Mapping[str, str]) -> str:
    run_id = environment.get("TORCHELASTIC_RUN_ID", "none")
    if run_id != "none":  # what torchrun says when the user has not given one
        return run_id
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    return f"torchrun-{address}:{port}" if address else ""


def _slurm_job(environment: Mapping[str, str]) -> str:
    job = environment.get("SLURM_JOB_ID", "")
    step = environment.get("SLURM_STEP_ID", environment.get("SLURM_STEPID", ""))
    if not job:
        return ""
    return f"slurm-{job}.{step}" if step else f"slurm-{job}"
