# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO and every peer over distance, on emulated links; benchmarks/README.md.

settings.py says which cells there are, running.py runs one, store.py keeps what came, metrics.py
makes figures of it and says what they should be, bands.py judges the short run of the tests,
tables.py and plots.py show everything.
"""
