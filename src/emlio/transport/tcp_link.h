// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "emlio/transport/transport.h"

namespace emlio::transport {

// Of what is no TCP connection nothing is known, and nothing is changed.

std::optional<LinkState> ReadLinkState(int fd);

// How the kernel is to send on this connection, where it can be told.
// It takes little more than it can put on the wire: what it took is bound to the connection, and
// waits there if that is slow, while others could carry it. And after an outage it tries again
// every two seconds (Linux 6.15 and later), not after twice as long each time: whoever waits for a
// batch would wait as long again as the link was down.
void PrepareToSend(int fd);

// The kernel finds out by itself when the other host is gone without a word, and sends small
// messages at once. Unlike heartbeats of the application this leaves a connection alone whose
// reader is merely slow, since kernels answer.
void PrepareToKeep(int fd);

}  // namespace emlio::transport
