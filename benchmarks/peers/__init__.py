# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Other ways to read training images from another machine, and EMLIO, behind one interface.

One file a peer. A peer prepares the images in its own format, serves them on one node, and reads
them on another; README.md has the rules that are the same for all.
"""
