// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// Any answer of a database: it is judged, and no more points are refused than were sent.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "emlio/energy_sinks/influx_answer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace emlio::energy_sinks;
  if (size < 2) return 0;
  HttpAnswer answer;
  answer.status = 200 + data[0] * 2;
  answer.body.assign(reinterpret_cast<const char*>(data + 2), size - 2);
  const int64_t points = 1 + data[1];
  const InfluxVerdict verdict = JudgeInfluxAnswer(answer, points);
  if (verdict.refused < 0 || verdict.refused > points) std::abort();
  if (verdict.what != InfluxVerdict::What::kTaken && verdict.refused != 0) std::abort();
  return 0;
}
