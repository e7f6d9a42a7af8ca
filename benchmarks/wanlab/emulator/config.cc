// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "emlio/base/clock.h"

namespace emlio::wanlab {
namespace {

using nlohmann::json;

constexpr double kMaxDelayMs = 60'000;
constexpr double kMinRateMbit = 0.01;
constexpr double kMaxRateMbit = 400'000;
constexpr double kMaxQueue = 4e9;
constexpr size_t kMaxAddressBytes = 64;
constexpr size_t kMaxPathBytes = 100;  // of a Unix socket
constexpr size_t kMaxNameBytes = 64;

Result<json> ParseObject(std::string_view text, size_t limit) {
  if (text.size() > limit) {
    return LimitExceeded("more than " + std::to_string(limit) + " bytes of JSON");
  }
  json value = json::parse(text, nullptr, false);
  if (!value.is_object()) return InvalidArgument("not a JSON object");
  return value;
}

Status OnlyFields(const json& object, const std::set<std::string>& known) {
  for (const auto& [name, value] : object.items()) {
    if (!known.contains(name)) return InvalidArgument("unknown field \"" + name + "\"");
  }
  return OkStatus();
}

// The number in `object[name]`, within bounds; `value` stays as it is where there is none.
Status GetNumber(const json& object, const std::string& name, double lowest, double highest,
                 double* value) {
  const auto found = object.find(name);
  if (found == object.end()) return OkStatus();
  const double number = found->is_number() ? found->get<double>() : std::nan("");
  if (!(number >= lowest && number <= highest)) {
    return InvalidArgument("\"" + name + "\" must be a number from " + json(lowest).dump() +
                           " to " + json(highest).dump() + ", not " + found->dump());
  }
  *value = number;
  return OkStatus();
}

template <typename T>
Status GetWhole(const json& object, const std::string& name, double lowest, double highest,
                T* value) {
  double number = static_cast<double>(*value);
  EMLIO_RETURN_IF_ERROR(GetNumber(object, name, lowest, highest, &number));
  if (number != std::floor(number)) {
    return InvalidArgument("\"" + name + "\" must be a whole number");
  }
  *value = static_cast<T>(number);
  return OkStatus();
}

Status GetTimeNs(const json& object, const std::string& name, int64_t* value_ns) {
  double ms = static_cast<double>(*value_ns) / static_cast<double>(kNsPerMs);
  EMLIO_RETURN_IF_ERROR(GetNumber(object, name, 0, kMaxDelayMs, &ms));
  *value_ns = std::llround(ms * static_cast<double>(kNsPerMs));
  return OkStatus();
}

Status GetShare(const json& object, const std::string& name, double* share) {
  double percent = *share * 100;
  EMLIO_RETURN_IF_ERROR(GetNumber(object, name, 0, 100, &percent));
  *share = percent / 100;
  return OkStatus();
}

Status GetBool(const json& object, const std::string& name, bool* value) {
  const auto found = object.find(name);
  if (found == object.end()) return OkStatus();
  if (!found->is_boolean()) return InvalidArgument("\"" + name + "\" must be true or false");
  *value = found->get<bool>();
  return OkStatus();
}

Status GetString(const json& object, const std::string& name, size_t limit, std::string* value) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string() || found->get<std::string>().empty() ||
      found->get<std::string>().size() > limit) {
    return InvalidArgument("\"" + name + "\" must be a string of 1 to " + std::to_string(limit) +
                           " bytes");
  }
  *value = found->get<std::string>();
  return OkStatus();
}

Status ApplyObject(const json& object, WantedDirection* wanted) {
  if (!object.is_object()) return InvalidArgument("not a JSON object");
  EMLIO_RETURN_IF_ERROR(
      OnlyFields(object, {"delay_ms", "jitter_ms", "rate_mbit", "loss_percent", "reorder_percent",
                          "reorder_by_ms", "queue_bytes", "queue_packets", "cut", "stalled"}));
  WantedDirection changed = *wanted;
  DirectionSettings& settings = changed.settings;
  EMLIO_RETURN_IF_ERROR(GetTimeNs(object, "delay_ms", &settings.delay_ns));
  EMLIO_RETURN_IF_ERROR(GetTimeNs(object, "jitter_ms", &settings.jitter_ns));
  EMLIO_RETURN_IF_ERROR(GetTimeNs(object, "reorder_by_ms", &settings.reorder_by_ns));
  if (settings.jitter_ns > settings.delay_ns) {
    return InvalidArgument("\"jitter_ms\" must not be larger than \"delay_ms\"");
  }
  double rate_mbit = static_cast<double>(settings.rate_bits_per_s) / 1e6;
  EMLIO_RETURN_IF_ERROR(GetNumber(object, "rate_mbit", 0, kMaxRateMbit, &rate_mbit));
  if (rate_mbit > 0 && rate_mbit < kMinRateMbit) {
    return InvalidArgument("\"rate_mbit\" must be 0 (no limit) or at least 0.01");
  }
  settings.rate_bits_per_s = std::llround(rate_mbit * 1e6);
  EMLIO_RETURN_IF_ERROR(GetShare(object, "loss_percent", &settings.loss));
  EMLIO_RETURN_IF_ERROR(GetShare(object, "reorder_percent", &settings.reorder));
  EMLIO_RETURN_IF_ERROR(GetBool(object, "cut", &settings.cut));
  EMLIO_RETURN_IF_ERROR(GetBool(object, "stalled", &settings.stalled));
  for (const auto& [name, value] : {std::pair("queue_bytes", &settings.queue_bytes),
                                    std::pair("queue_packets", &settings.queue_packets)}) {
    const auto found = object.find(name);
    if (found == object.end()) continue;
    if (found->is_null()) {
      *value = 0;
    } else {
      EMLIO_RETURN_IF_ERROR(GetWhole(object, name, 1, kMaxQueue, value));
    }
    changed.queue_is_automatic = false;
  }
  if (settings.queue_packets == 0 && (changed.queue_is_automatic || settings.queue_bytes == 0)) {
    changed.queue_is_automatic = true;
    settings.queue_bytes = 0;
  }
  *wanted = changed;
  return OkStatus();
}

Status ParseLink(const json& object, size_t nodes, LinkConfig* link) {
  if (!object.is_object()) return InvalidArgument("not a JSON object");
  EMLIO_RETURN_IF_ERROR(
      OnlyFields(object, {"storage", "compute", "storage_address", "compute_address", "prefix_bits",
                          "mtu", "to_compute", "to_storage"}));
  for (const char* end : {"storage", "compute"}) {
    if (!object.contains(end)) return InvalidArgument(std::string("no \"") + end + "\"");
  }
  const double last = static_cast<double>(nodes) - 1;
  EMLIO_RETURN_IF_ERROR(GetWhole(object, "storage", 0, last, &link->storage));
  EMLIO_RETURN_IF_ERROR(GetWhole(object, "compute", 0, last, &link->compute));
  EMLIO_RETURN_IF_ERROR(
      GetString(object, "storage_address", kMaxAddressBytes, &link->storage_address));
  EMLIO_RETURN_IF_ERROR(
      GetString(object, "compute_address", kMaxAddressBytes, &link->compute_address));
  EMLIO_RETURN_IF_ERROR(GetWhole(object, "prefix_bits", 1, 31, &link->prefix_bits));
  EMLIO_RETURN_IF_ERROR(GetWhole(object, "mtu", 576, 65535, &link->mtu));
  const char* const names[] = {"to_compute", "to_storage"};
  for (const Direction direction : kDirections) {
    const auto found = object.find(names[direction]);
    if (found == object.end()) continue;
    const Status applied = ApplyObject(*found, &link->directions[direction]);
    if (!applied.ok()) return applied.WithContext(names[direction]);
  }
  return OkStatus();
}

}  // namespace

Status Apply(std::string_view json_text, WantedDirection* wanted) {
  EMLIO_ASSIGN_OR_RETURN(const json object, ParseObject(json_text, kMaxCommandBytes));
  return ApplyObject(object, wanted);
}

Result<Config> ParseConfig(std::string_view text) {
  EMLIO_ASSIGN_OR_RETURN(const json object, ParseObject(text, kMaxConfigBytes));
  EMLIO_RETURN_IF_ERROR(OnlyFields(object, {"nodes", "links", "control", "seed"}));
  Config config;
  const auto nodes = object.find("nodes");
  if (nodes == object.end() || !nodes->is_array() || nodes->empty() || nodes->size() > kMaxNodes) {
    return InvalidArgument("\"nodes\" must be a list of 1 to " + std::to_string(kMaxNodes) +
                           " names");
  }
  for (const json& node : *nodes) {
    if (!node.is_string() || node.get<std::string>().size() > kMaxNameBytes) {
      return InvalidArgument("\"nodes\": names must be strings of at most " +
                             std::to_string(kMaxNameBytes) + " bytes");
    }
    config.nodes.push_back(node.get<std::string>());
  }
  const auto links = object.find("links");
  if (links == object.end() || !links->is_array() || links->size() > kMaxLinks) {
    return InvalidArgument("\"links\" must be a list of at most " + std::to_string(kMaxLinks));
  }
  for (const json& link : *links) {
    const Status parsed = ParseLink(link, config.nodes.size(), &config.links.emplace_back());
    if (!parsed.ok()) {
      return parsed.WithContext("link " + std::to_string(config.links.size() - 1));
    }
  }
  EMLIO_RETURN_IF_ERROR(GetString(object, "control", kMaxPathBytes, &config.control_path));
  EMLIO_RETURN_IF_ERROR(GetWhole(object, "seed", 0, 4294967295.0, &config.seed));
  return config;
}

Result<Command> ParseCommand(std::string_view text) {
  EMLIO_ASSIGN_OR_RETURN(const json object, ParseObject(text, kMaxCommandBytes));
  EMLIO_RETURN_IF_ERROR(OnlyFields(object, {"set", "link", "direction", "statistics", "stop"}));
  if (object.contains("set") + object.contains("statistics") + object.contains("stop") != 1) {
    return InvalidArgument("a command has one of \"set\", \"statistics\" and \"stop\"");
  }
  Command command;
  if (object.contains("set")) {
    command.kind = Command::kSet;
    if (!object["set"].is_object()) return InvalidArgument("\"set\" must be a JSON object");
    command.set = object["set"].dump(-1, ' ', false, json::error_handler_t::replace);
  } else {
    command.kind = object.contains("stop") ? Command::kStop : Command::kStatistics;
  }
  if (object.contains("link")) {
    size_t link = 0;
    EMLIO_RETURN_IF_ERROR(GetWhole(object, "link", 0, static_cast<double>(kMaxLinks) - 1, &link));
    command.link = link;
  }
  if (const auto found = object.find("direction"); found != object.end()) {
    if (*found == "to_compute") {
      command.direction = kToCompute;
    } else if (*found == "to_storage") {
      command.direction = kToStorage;
    } else {
      return InvalidArgument("\"direction\" must be \"to_compute\" or \"to_storage\"");
    }
  }
  return command;
}

DirectionSettings Resolve(const WantedDirection& wanted, const WantedDirection& opposite) {
  DirectionSettings settings = wanted.settings;
  if (wanted.queue_is_automatic && settings.rate_bits_per_s > 0) {
    const double round_trip_s =
        static_cast<double>(settings.delay_ns + opposite.settings.delay_ns) /
        static_cast<double>(kNsPerSecond);
    settings.queue_bytes = std::max<int64_t>(
        kMinQueueBytes,
        std::llround(static_cast<double>(settings.rate_bits_per_s) / 8 * round_trip_s));
  }
  return settings;
}

}  // namespace emlio::wanlab
