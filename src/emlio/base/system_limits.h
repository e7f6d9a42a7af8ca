// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace emlio {

// Bytes of memory that this process may use at most: what the host has, or the limit of the control
// group (version 1 or 2) that it or an ancestor of it is in. `root` is "/" but in tests.
uint64_t UsableMemoryBytes(const std::string& root = "/");

// What one TCP connection can have on its way at most: the part of its largest send buffer
// (tcp_wmem) that data get. Linux's default where that cannot be read.
uint64_t TcpSendWindowBytes(const std::string& root = "/");

// Descriptors that this process may have open.
uint64_t MaxOpenFiles();
// Raises that number as far as an ordinary user may.
void RaiseMaxOpenFiles();

}  // namespace emlio
