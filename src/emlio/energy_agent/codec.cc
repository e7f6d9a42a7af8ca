// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <exception>
#include <limits>
#include <msgpack.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "emlio/base/utf8.h"
#include "emlio/energy_agent/messages.h"

namespace emlio::energy_agent {
namespace {

constexpr size_t kMaxDepth = 6;

// One description of every struct serves both directions: Fields(io, value) calls io("key", member)
// for each member that is sent. A member that is left out keeps its default.
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::Moment>
{
  io("mono", m.monotonic_ns);
  io("wall", m.wall_ns);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::ClockReading>
{
  Fields(io, m.at);
  io("offset", m.offset_ns);
  io("esterror", m.esterror_ns);
  io("maxerror", m.maxerror_ns);
  io("synchronised", m.synchronised);
}
using Fact = std::pair<std::string, std::string>;
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Fact>
{
  io("name", m.first);
  io("value", m.second);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::Domain>
{
  io("id", m.id);
  io.Enum("kind", m.kind, energy::kDomainKinds - 1);
  io("source", m.source);
  io.Enum("quantity", m.quantity, 1);
  io("socket", m.socket);
  io("die", m.die);
  io("device", m.device);
  io("pci", m.pci);
  io("detail", m.detail);
  io("per_unit", m.per_unit);
  io("range", m.range_units);
  io("max_watts", m.max_watts);
  io("plausible_watts", m.plausible_watts);
  io("plausible_from_watts", m.plausible_from_watts);
  io("refresh", m.refresh_ns);
  io("step", m.step_joules);
  io("update_period", m.update_period_ns);
  io("in_total", m.in_total);
  io("outside_total", m.outside_total);
  io("shared", m.shared);
  io("virtualised", m.virtualised);
  io("filtered", m.filtered);
  io("doubt", m.doubt);
  io("facts", m.facts);
  io("cause", m.cause);
  io("fix", m.fix);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::Absence>
{
  io("source", m.source);
  io("cause", m.cause);
  io("fix", m.fix);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::Energy>
{
  io.Enum("state", m.state, static_cast<int>(energy::State::kUnavailable));
  io("joules", m.joules);
  io("uncertainty", m.uncertainty_joules);
  io("void", m.void_ns);
  io("wraps", m.wraps);
  io("resets", m.resets);
  io("gaps", m.gaps);
  io("stalls", m.stalls);
  io("ambiguous", m.ambiguous);
  io("cause", m.cause);
  io("fix", m.fix);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::WindowLabel>
{
  io("name", m.name);
  io("stage", m.stage);
  io("epoch", m.epoch);
  io("rank", m.rank);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::WindowReport>
{
  io("id", m.id);
  Fields(io, m.label);
  io("records", m.work.records);
  io("bytes", m.work.bytes);
  io("begin", m.begin_ns);
  io("end", m.end_ns);
  io("cut", m.cut);
  io("energies", m.energies);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::SamplerStats>
{
  io("ticks", m.ticks);
  io("late", m.late);
  io("missed", m.missed);
  io("clock_steps", m.clock_steps);
  io("clock_step", m.clock_step_ns);
  io("late_p50", m.late_p50_ns);
  io("late_p99", m.late_p99_ns);
  io("late_max", m.late_max_ns);
  io("cpu", m.cpu_ns);
  io("elapsed", m.elapsed_ns);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::Activity>
{
  io("cpu_seconds", m.cpu_seconds);
  io("gpu_seconds", m.gpu_seconds);
  io("received", m.network_received_bytes);
  io("sent", m.network_sent_bytes);
  io("read", m.storage_read_bytes);
  io("written", m.storage_written_bytes);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, energy::SinkReport>
{
  io("sink", m.sink);
  io("target", m.target);
  io("sent", m.points_sent);
  io("refused", m.points_refused);
  io("dropped", m.points_dropped);
  io("retries", m.retries);
  io("error", m.last_error);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Hello>
{
  io("min", m.min_version);
  io("max", m.max_version);
  io("agent", m.agent);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Welcome>
{
  io("version", m.version);
  io("node", m.node);
  io("boot", m.boot_id);
  io("role", m.role);
  io("interval", m.interval_ns);
  io("domains", m.domains);
  io("absent", m.absent);
  io("facts", m.facts);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Probe>
{
  io("nonce", m.nonce);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Probed>
{
  io("nonce", m.nonce);
  Fields(io, m.at);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, StartRun>
{
  io("run", m.run);
  io("ago", m.ago_ns);
  io("name", m.name);
  io("stage", m.stage);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Started>
{
  io("run", m.run);
  Fields(io, m.at);
  io("begin", m.begin_ns);
  io("clock", m.clock);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Look>
{
  io("run", m.run);
  io("stop", m.stop);
  io("after", m.after);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Figures>
{
  io("run", m.run);
  Fields(io, m.at);
  io("begin", m.begin_ns);
  io("end", m.end_ns);
  io("stopped", m.stopped);
  io("energies", m.energies);
  io("watts", m.watts);
  io("clock", m.clock);
  io("windows", m.windows);
  io("more", m.more);
  io("stats", m.stats);
  io("proxies", m.proxies);
  io("sinks", m.sinks);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Window>
{
  io("key", m.key);
  Fields(io, m.label);
  io("begin", m.begin_ns);
  io("end", m.end_ns);
  io("records", m.work.records);
  io("bytes", m.work.bytes);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Peer>
{
  io("endpoint", m.endpoint);
  io("unmeasured", m.unmeasured);
  io("boot_id", m.boot_id);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Error>
{
  io.Enum("code", m.code, static_cast<int>(Code::kInternal));
  io("text", m.text);
  io("run", m.run);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, GetTicks>
{
  io("run", m.run);
  io("from", m.from);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, Ticks>
{
  io("run", m.run);
  io("first", m.first);
  io("next", m.next);
  io("data", m.data);
  io("more", m.more);
  io("last", m.last);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, GetWindow>
{
  io("nonce", m.nonce);
  io("key", m.key);
}
void Fields(auto& io, auto& m)
  requires std::same_as<std::remove_cvref_t<decltype(m)>, WindowFigures>
{
  io("nonce", m.nonce);
  io("found", m.found);
  io("window", m.window);
}

// ---------------------------------------------------------------------------------------------

class Counter {
 public:
  void operator()(std::string_view, const auto&) { ++count; }
  void Enum(std::string_view, const auto&, int) { ++count; }
  uint32_t count = 0;
};

template <typename T>
uint32_t CountFields(const T& value) {
  Counter counter;
  Fields(counter, value);
  return counter.count;
}

class Writer {
 public:
  explicit Writer(msgpack::sbuffer* out) : packer_(*out) {}

  template <typename M>
  void Message(uint64_t type, const M& message) {
    packer_.pack_map(1 + CountFields(message));
    Text("t");
    packer_.pack(type);
    Fields(*this, message);
  }
  template <typename T>
  void operator()(std::string_view key, const T& value) {
    Text(key);
    Put(value);
  }
  void Enum(std::string_view key, const auto& value, int) {
    Text(key);
    packer_.pack(static_cast<uint64_t>(value));
  }

 private:
  void Put(const std::string& text) {
    const std::string_view start = std::string_view(text).substr(0, kMaxTextBytes);
    Text(start.substr(0, ValidUtf8Prefix(start)));
  }
  void Put(const Blob& blob) {
    packer_.pack_bin(static_cast<uint32_t>(blob.bytes.size()));
    packer_.pack_bin_body(blob.bytes.data(), static_cast<uint32_t>(blob.bytes.size()));
  }
  template <typename T>
    requires std::is_arithmetic_v<T>
  void Put(T value) {
    packer_.pack(value);
  }
  template <typename T>
  void Put(const std::optional<T>& value) {
    if (value) return Put(*value);
    packer_.pack_nil();
  }
  template <typename T>
  void Put(const std::vector<T>& values) {
    const size_t size = std::min(values.size(), kMaxElements);
    packer_.pack_array(static_cast<uint32_t>(size));
    for (size_t i = 0; i < size; ++i) Put(values[i]);
  }
  template <typename T>
    requires std::is_class_v<T>
  void Put(const T& value) {
    packer_.pack_map(CountFields(value));
    Fields(*this, value);
  }
  void Text(std::string_view text) {
    packer_.pack_str(static_cast<uint32_t>(text.size()));
    packer_.pack_str_body(text.data(), static_cast<uint32_t>(text.size()));
  }

  msgpack::packer<msgpack::sbuffer> packer_;
};

class Reader {
 public:
  explicit Reader(const msgpack::object& map) : map_(&map) {}

  const Status& status() const { return status_; }

  template <typename T>
  void operator()(std::string_view key, T& value) {
    if (const msgpack::object* found = Find(key)) Get(key, *found, &value);
  }
  template <typename T>
  void Enum(std::string_view key, T& value, int last) {
    uint64_t number = static_cast<uint64_t>(value);
    (*this)(key, number);
    if (number > static_cast<uint64_t>(last)) return Refuse(key, "is out of range");
    value = static_cast<T>(number);
  }

 private:
  const msgpack::object* Find(std::string_view key) const {
    for (uint32_t i = 0; i < map_->via.map.size; ++i) {
      const msgpack::object_kv& pair = map_->via.map.ptr[i];
      if (pair.key.type == msgpack::type::STR &&
          std::string_view(pair.key.via.str.ptr, pair.key.via.str.size) == key) {
        return &pair.val;
      }
    }
    return nullptr;
  }
  void Refuse(std::string_view key, std::string_view what) {
    if (status_.ok()) status_ = ProtocolError(fmt::format("'{}' {}", key, what));
  }

  void Get(std::string_view key, const msgpack::object& from, std::string* to) {
    if (from.type != msgpack::type::STR) return Refuse(key, "is no text");
    const std::string_view text(from.via.str.ptr, from.via.str.size);
    if (text.size() > kMaxTextBytes) return Refuse(key, "is too long");
    if (ValidUtf8Prefix(text) != text.size()) return Refuse(key, "is no UTF-8");
    *to = text;
  }
  void Get(std::string_view key, const msgpack::object& from, Blob* to) {
    if (from.type != msgpack::type::BIN) return Refuse(key, "is not binary");
    to->bytes.assign(from.via.bin.ptr, from.via.bin.size);
  }
  void Get(std::string_view key, const msgpack::object& from, bool* to) {
    if (from.type != msgpack::type::BOOLEAN) return Refuse(key, "is neither true nor false");
    *to = from.via.boolean;
  }
  void Get(std::string_view key, const msgpack::object& from, double* to) {
    double value = 0;
    switch (from.type) {
      case msgpack::type::FLOAT32:
      case msgpack::type::FLOAT64:
        value = from.via.f64;
        break;
      case msgpack::type::POSITIVE_INTEGER:
        value = static_cast<double>(from.via.u64);
        break;
      case msgpack::type::NEGATIVE_INTEGER:
        value = static_cast<double>(from.via.i64);
        break;
      default:
        return Refuse(key, "is no number");
    }
    if (!std::isfinite(value)) return Refuse(key, "is not finite");
    *to = value;
  }
  template <typename T>
    requires std::is_integral_v<T>
  void Get(std::string_view key, const msgpack::object& from, T* to) {
    if (from.type == msgpack::type::POSITIVE_INTEGER) {
      if (from.via.u64 > static_cast<uint64_t>(std::numeric_limits<T>::max())) {
        return Refuse(key, "is out of range");
      }
      *to = static_cast<T>(from.via.u64);
    } else if (from.type == msgpack::type::NEGATIVE_INTEGER && std::is_signed_v<T>) {
      if (from.via.i64 < static_cast<int64_t>(std::numeric_limits<T>::min())) {
        return Refuse(key, "is out of range");
      }
      *to = static_cast<T>(from.via.i64);
    } else {
      Refuse(key, "is no whole number of its range");
    }
  }
  template <typename T>
  void Get(std::string_view key, const msgpack::object& from, std::optional<T>* to) {
    to->reset();
    if (from.type == msgpack::type::NIL) return;
    T value{};
    Get(key, from, &value);
    if (status_.ok()) *to = std::move(value);
  }
  template <typename T>
  void Get(std::string_view key, const msgpack::object& from, std::vector<T>* to) {
    if (from.type != msgpack::type::ARRAY) return Refuse(key, "is no array");
    for (uint32_t i = 0; i < from.via.array.size && status_.ok(); ++i) {
      T value{};
      Get(key, from.via.array.ptr[i], &value);
      to->push_back(std::move(value));
    }
  }
  template <typename T>
    requires std::is_class_v<T>
  void Get(std::string_view key, const msgpack::object& from, T* to) {
    if (from.type != msgpack::type::MAP) return Refuse(key, "is no map");
    const msgpack::object* const outer = std::exchange(map_, &from);
    Fields(*this, *to);
    map_ = outer;
  }

  const msgpack::object* map_;
  Status status_;
};

template <typename M>
Result<AnyMessage> Read(const msgpack::object& map) {
  M message;
  Reader reader(map);
  Fields(reader, message);
  if (!reader.status().ok()) return reader.status();
  return AnyMessage(std::move(message));
}

using ReadFunction = Result<AnyMessage> (*)(const msgpack::object&);
template <size_t... kTypes>
Result<AnyMessage> ReadType(uint64_t type, const msgpack::object& map,
                            std::index_sequence<kTypes...>) {
  static constexpr ReadFunction kReaders[] = {
      &Read<std::variant_alternative_t<kTypes, AnyMessage>>...};
  return kReaders[type - 1](map);
}

}  // namespace

Status CheckVersion(const Welcome& welcome) {
  if (welcome.version >= kMinVersion && welcome.version <= kVersion) return OkStatus();
  return Unsupported(fmt::format("its agent chose version {}, and this program speaks {} to {}",
                                 welcome.version, kMinVersion, kVersion));
}

std::vector<uint8_t> Encode(const AnyMessage& message) {
  msgpack::sbuffer buffer;
  Writer writer(&buffer);
  std::visit([&](const auto& m) { writer.Message(message.index() + 1, m); }, message);
  const auto* begin = reinterpret_cast<const uint8_t*>(buffer.data());
  return {begin, begin + buffer.size()};
}

Result<AnyMessage> Decode(std::span<const uint8_t> bytes) {
  constexpr size_t kTypes = std::variant_size_v<AnyMessage>;
  if (bytes.size() > kMaxMessageBytes) return ProtocolError("a message is too long");
  try {
    const msgpack::unpack_limit limit(kMaxElements, 64, kMaxTextBytes, kMaxMessageBytes, 0,
                                      kMaxDepth);
    size_t offset = 0;
    const msgpack::object_handle handle = msgpack::unpack(
        reinterpret_cast<const char*>(bytes.data()), bytes.size(), offset, nullptr, nullptr, limit);
    if (offset != bytes.size()) return ProtocolError("there are bytes behind a message");
    const msgpack::object& map = *handle;
    if (map.type != msgpack::type::MAP) return ProtocolError("a message is no map");
    uint64_t type = 0;
    Reader reader(map);
    reader("t", type);
    if (!reader.status().ok()) return reader.status();
    if (type == 0) return ProtocolError("a message has no type");
    if (type > kTypes) return Unsupported(fmt::format("messages of type {} are not known", type));
    return ReadType(type, map, std::make_index_sequence<kTypes>());
  } catch (const std::exception& error) {  // msgpack's: cut short, or beyond a limit
    return ProtocolError(fmt::format("a message cannot be read: {}", error.what()));
  }
}

}  // namespace emlio::energy_agent
