# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests."""

import signal

# Many tests send Ctrl-C to programs that they start. A shell starts what runs in its background
# with that signal ignored, and whatever is started from there would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
