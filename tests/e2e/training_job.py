# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A small job that trains on what it reads: training_job.py SOURCE EPOCHS SECONDS_A_STEP."""

import sys
import time

import numpy as np

import emlio

CLASSES = 4


def main() -> None:
    source, epochs, step_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    # A daemon may be one epoch ahead, or no epoch would be its own time.
    loader = emlio.Loader(source, batch_size=10, shuffle="full", prefetch_mb=1, epochs=epochs)
    weights = np.zeros((256, CLASSES))
    with loader:
        for _ in range(epochs):
            for batch in loader:
                step_end = time.monotonic() + step_s
                counts = np.stack([np.bincount(record, minlength=256) for record in batch.records])
                features = counts / counts.sum(axis=1, keepdims=True)
                labels = batch.indices % CLASSES
                scores = np.exp(features @ weights)
                scores /= scores.sum(axis=1, keepdims=True)
                scores[np.arange(len(labels)), labels] -= 1
                weights -= 0.1 * features.T @ scores / len(labels)
                # The rest of a step is an accelerator's.
                time.sleep(max(0.0, step_end - time.monotonic()))
    assert np.isfinite(weights).all()


if __name__ == "__main__":
    main()
