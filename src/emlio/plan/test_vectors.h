// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

namespace emlio::plan {

// The vectors that python/tests/test_plan_twin.py checks too. Throws, and so fails the test, when
// the file is missing or has no such list.
inline nlohmann::json TestVectors(const char* list) {
  std::ifstream file(EMLIO_TESTDATA_DIR "/plan_vectors.json");
  nlohmann::json vectors = nlohmann::json::parse(file).at(list);
  if (vectors.empty()) throw std::runtime_error("empty list of test vectors");
  return vectors;
}

}  // namespace emlio::plan
