# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO over distance, beside what the link can carry; benchmarks/README.md."""
