# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A job whose stages stand still when $EMLIO_DITHER says so: dithered_job.py WATTS_FILE.

Each stage that works adds its power to that of the host: WATTS_FILE is an EnergyHost's.
"""

import contextlib
import csv
import os
import sys
import time
from pathlib import Path

from emlio import energy

IDLE_WATTS = 40.0
STAGE_WATTS = {"read": 20.0, "preprocess": 50.0, "train": 100.0}


def main() -> None:
    watts_file = Path(sys.argv[1])
    begin = time.monotonic()
    with Path(os.environ["EMLIO_DITHER"]).open() as schedule:
        for block in csv.DictReader(schedule):
            working = [stage for stage in STAGE_WATTS if stage not in block["paused"].split(",")]
            with contextlib.ExitStack() as windows:
                for stage in working:
                    windows.enter_context(energy.window(stage, stage=stage))
                watts = IDLE_WATTS + sum(STAGE_WATTS[stage] for stage in working)
                new = watts_file.with_suffix(".new")
                new.write_text(f"{watts}")
                new.rename(watts_file)
                time.sleep(max(0.0, begin + float(block["end_s"]) - time.monotonic()))


if __name__ == "__main__":
    main()
