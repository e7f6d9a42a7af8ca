// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/sqlite.h"

// What writer and reader of a store agree on (METRICS.md section 9).
namespace emlio::energy {

// Opens a store for writing: makes it when it is missing or empty, brings an earlier version up to
// date. kUnsupported: of a later version. kInvalidArgument: of something else.
Result<Sqlite> OpenStoreForWriting(const std::string& path, int64_t busy_timeout_ns);
// Opens a store for reading; also where nothing may be written, unless somebody writes it there.
Result<Sqlite> OpenStoreForReading(const std::string& path);

// JSON texts. Reading takes what is not of the form for empty.
std::string NamesToJson(const std::vector<std::string>& names);
std::vector<std::string> NamesFromJson(std::string_view json);
std::string LabelsToJson(const std::map<std::string, std::string>& labels);
std::map<std::string, std::string> LabelsFromJson(std::string_view json);
// kInvalidArgument unless it is a JSON object; `what` is the name in the message.
Status CheckJsonObject(std::string_view what, std::string_view json);

}  // namespace emlio::energy
