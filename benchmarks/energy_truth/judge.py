# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What an answer is worth."""

import re
from dataclasses import dataclass
from typing import Literal

from benchmarks.energy_truth.scenarios import Scenario
from benchmarks.energy_truth.tool import Reading, Tool

TOLERANCE = 0.01


@dataclass(frozen=True)
class Verdict:
    """Of one run. `joules` is the sum of what the tool answered, `truth` what was used."""

    kind: Literal[
        "right",  # within the tolerance
        "wrong",
        "n/a",  # no number, and the cause, where there cannot or need not be a number
        "silent",  # no number, and no word of the cause
        "failed",  # the program ended with an error that does not name the cause
        "invented",  # a number where nobody can know one; 0 is one too
    ]
    joules: float | None
    truth: float | None
    error: float | None  # of the truth: 0.01 is 1 %

    @property
    def passed(self) -> bool:
        return self.kind in ("right", "n/a")


def judge(scenario: Scenario, tool: type[Tool], reading: Reading) -> Verdict:
    """The sum of a tool's numbers against the truth, over the tool's own window.

    The truth is that of the parts of the host that the tool says it measures: one that it leaves
    out by design costs nothing, one that it loses does.
    """
    joules = sum(reading.parts.values()) if reading.parts else None
    truth_of = scenario.truth(*reading.window())
    truth = sum(truth_of[part] for part in tool.covers if part in truth_of) or None
    if joules is None:
        if scenario.causes and re.search(scenario.causes, reading.said):
            return Verdict("n/a", None, truth, None)
        return Verdict("failed" if reading.failed else "silent", None, truth, None)
    if truth is None:
        return Verdict("invented", joules, None, None)
    error = joules / truth - 1
    return Verdict("right" if abs(error) <= TOLERANCE else "wrong", joules, truth, error)
