// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emlio/energy/meter.h"
#include "emlio/energy/sysfs.h"

namespace emlio::energy {

// One function a source (METRICS.md section 3). Each looks at the host once and never fails: what
// is there and cannot be read is a meter without a counter, what is not there at all an absence,
// both with cause and fix. The meters of one call are used by one thread at a time.
Finding FindPerf(const Host& host, const CpuFacts& facts);
Finding FindPowercap(const Host& host, const CpuFacts& facts);
Finding FindPowercapMmio(const Host& host, const CpuFacts& facts);
Finding FindHwmon(const Host& host, const CpuFacts& facts);
Finding FindNvml(const Host& host);
Finding FindRocm(const Host& host);

// Whether the user asked for the GPU of that UUID or PCI address ("00000000:3B:00.0" is
// "0000:3b:00.0").
bool GpuWanted(const Host& host, std::string_view uuid, std::string_view pci);
// A PCI address in the form that Linux uses; as it is when it is none.
std::string NormalPci(std::string_view pci);

}  // namespace emlio::energy
