// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "emlio/transport/endpoint.h"
#include "emlio/transport/transport.h"

namespace emlio::transport {

// Finds the addresses of a host name; called on a thread of its own, and may outlive the dialer.
using ResolveFunction = std::function<Result<std::vector<NumericAddress>>(const HostPort&)>;

// DialZmq with a resolver other than the system's, for tests.
Result<std::unique_ptr<Dialer>> DialZmqWith(TransportOptions options, ResolveFunction resolve);

}  // namespace emlio::transport
