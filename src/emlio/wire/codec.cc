// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <exception>
#include <msgpack.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "emlio/base/endian.h"
#include "emlio/base/utf8.h"
#include "emlio/wire/messages.h"
#include "emlio/wire/schema.h"
#include "emlio/wire/utf8.h"

namespace emlio::wire {
namespace {

// Bounds on what is kept of a header before its fields are looked at. A full manifest page has
// 6 values a shard.
constexpr size_t kMaxHeaderValues = 65536;
constexpr size_t kMaxHeaderDepth = 6;
constexpr size_t kMaxHeaderKeys = 64;

// ---------------------------------------------------------------------------------------------
// Writing

// How many map entries a message has when the fields that have their defaults are left out.
class FieldCounter {
 public:
  uint32_t count() const { return count_; }

  void Number(std::string_view, const auto&, uint64_t, uint64_t) { ++count_; }
  void NumberOr(std::string_view, uint64_t value, uint64_t fallback, uint64_t, uint64_t) {
    count_ += value != fallback;
  }
  void ColumnOr(std::string_view, const auto&, uint64_t, uint64_t, uint64_t) { ++count_; }
  void Text(std::string_view, const std::string&) { ++count_; }
  void TextOr(std::string_view, const std::string& value) { count_ += !value.empty(); }
  void Name(std::string_view, const std::string&) { ++count_; }
  void Hash(std::string_view, const Hash128&) { ++count_; }
  void Bitmap(std::string_view, const std::vector<uint8_t>& value) { count_ += !value.empty(); }
  void U32s(std::string_view, const std::vector<uint32_t>&, size_t) { ++count_; }
  void Texts(std::string_view, const std::vector<std::string>&, size_t) { ++count_; }
  void Rows(std::string_view, const auto&, size_t, size_t) { ++count_; }
  void RowsOr(std::string_view, const auto& rows, size_t) { count_ += !rows.empty(); }
  void Require(std::string_view, bool, std::string_view) {}

 private:
  uint32_t count_ = 0;
};

template <typename M>
uint32_t CountFields(const M& message) {
  FieldCounter counter;
  Schema<M>::Fields(counter, message);
  return counter.count();
}

class Writer {
 public:
  explicit Writer(std::vector<uint8_t>* out) : sink_{out}, packer_(sink_) {}

  template <typename M>
  void Message(const M& message) {
    packer_.pack_map(1 + CountFields(message));
    Key("t");
    packer_.pack_uint64(Schema<M>::kType);
    Schema<M>::Fields(*this, message);
  }

  void Number(std::string_view key, const auto& value, uint64_t, uint64_t) {
    Key(key);
    packer_.pack_uint64(static_cast<uint64_t>(value));
  }
  void NumberOr(std::string_view key, uint64_t value, uint64_t fallback, uint64_t, uint64_t) {
    if (value != fallback) Number(key, value, 0, 0);
  }
  void ColumnOr(std::string_view key, const auto& value, uint64_t, uint64_t, uint64_t) {
    Number(key, value, 0, 0);
  }
  void Text(std::string_view key, const std::string& value) {
    Key(key);
    Str(value);
  }
  void TextOr(std::string_view key, const std::string& value) {
    if (!value.empty()) Text(key, value);
  }
  void Name(std::string_view key, const std::string& value) {
    Bin(key, value.data(), value.size());
  }
  void Hash(std::string_view key, const Hash128& value) { Bin(key, value.data(), value.size()); }
  void Bitmap(std::string_view key, const std::vector<uint8_t>& value) {
    if (!value.empty()) Bin(key, value.data(), value.size());
  }
  // Little-endian machines only (base/endian.h): the values' bytes in memory are the wire's.
  void U32s(std::string_view key, const std::vector<uint32_t>& value, size_t) {
    Bin(key, value.data(), value.size() * sizeof(uint32_t));
  }
  void Texts(std::string_view key, const std::vector<std::string>& value, size_t) {
    Key(key);
    packer_.pack_array(static_cast<uint32_t>(value.size()));
    for (const std::string& text : value) Str(text);
  }
  template <typename Row>
  void Rows(std::string_view key, const std::vector<Row>& rows, size_t, size_t) {
    Key(key);
    packer_.pack_array(static_cast<uint32_t>(rows.size()));
    in_row_ = true;
    for (const Row& row : rows) {
      packer_.pack_array(CountFields(row));
      Schema<Row>::Fields(*this, row);
    }
    in_row_ = false;
  }
  void RowsOr(std::string_view key, const auto& rows, size_t max_count) {
    if (!rows.empty()) Rows(key, rows, 0, max_count);
  }
  void Require(std::string_view, bool, std::string_view) {}

 private:
  struct Sink {
    std::vector<uint8_t>* out;
    void write(const char* data, size_t size) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(data);  // same type: one memcpy
      out->insert(out->end(), bytes, bytes + size);
    }
  };

  void Key(std::string_view key) {
    if (in_row_) return;  // a row's fields are known by their place
    packer_.pack_str(static_cast<uint32_t>(key.size()));
    packer_.pack_str_body(key.data(), static_cast<uint32_t>(key.size()));
  }
  void Str(const std::string& value) {
    std::string storage;
    const std::string_view text = SendableText(value, kMaxStringBytes, &storage);
    packer_.pack_str(static_cast<uint32_t>(text.size()));
    packer_.pack_str_body(text.data(), static_cast<uint32_t>(text.size()));
  }
  void Bin(std::string_view key, const void* data, size_t size) {
    Key(key);
    packer_.pack_bin(static_cast<uint32_t>(size));
    packer_.pack_bin_body(static_cast<const char*>(data), static_cast<uint32_t>(size));
  }

  Sink sink_;
  msgpack::packer<Sink> packer_;
  bool in_row_ = false;
};

// ---------------------------------------------------------------------------------------------
// Reading

// One value of a header, flat: the values inside an array or map follow it, up to `next`.
struct Value {
  enum class Kind : uint8_t { kNumber, kStr, kBin, kArray, kMap, kOther };
  Kind kind = Kind::kOther;
  uint32_t size = 0;  // bytes of a str or bin, elements of an array, pairs of a map
  uint32_t next = 0;  // index of the value behind this one and everything inside it
  union {
    uint64_t number = 0;
    const char* data;  // points into the header
  };
};

std::string_view KindName(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::kNumber:
      return "an unsigned integer";
    case Value::Kind::kStr:
      return "a str";
    case Value::Kind::kBin:
      return "a bin";
    case Value::Kind::kArray:
      return "an array";
    case Value::Kind::kMap:
      return "a map";
    case Value::Kind::kOther:
      break;
  }
  return "another type";
}

// Collects the values of one msgpack object under limits. Method names are msgpack-cxx's.
class Collector : public msgpack::null_visitor {
 public:
  Collector() { values_.reserve(kMaxHeaderKeys); }

  const std::vector<Value>& values() const { return values_; }
  const char* error() const { return error_; }

  bool visit_nil() { return Add(Value::Kind::kOther); }
  bool visit_boolean(bool) { return Add(Value::Kind::kOther); }
  bool visit_positive_integer(uint64_t number) { return Add(Value::Kind::kNumber, 0, number); }
  // Signed formats may carry what is not negative; packers differ in their choice.
  bool visit_negative_integer(int64_t number) {
    return number < 0 ? Add(Value::Kind::kOther)
                      : Add(Value::Kind::kNumber, 0, static_cast<uint64_t>(number));
  }
  bool visit_float32(float) { return Add(Value::Kind::kOther); }
  bool visit_float64(double) { return Add(Value::Kind::kOther); }
  bool visit_str(const char* data, uint32_t size) {
    return AddBytes(Value::Kind::kStr, data, size);
  }
  bool visit_bin(const char* data, uint32_t size) {
    return AddBytes(Value::Kind::kBin, data, size);
  }
  bool visit_ext(const char*, uint32_t) { return Add(Value::Kind::kOther); }
  bool start_array(uint32_t count) { return Enter(Value::Kind::kArray, count); }
  bool end_array() { return Leave(); }
  bool start_map(uint32_t count) { return Enter(Value::Kind::kMap, count); }
  bool end_map() { return Leave(); }
  void parse_error(size_t, size_t) { error_ = "not valid msgpack"; }
  void insufficient_bytes(size_t, size_t) { error_ = "cut short"; }

 private:
  bool Add(Value::Kind kind, uint32_t size = 0, uint64_t number = 0) {
    if (values_.size() >= kMaxHeaderValues) return Refuse("more values than a header may have");
    Value& value = values_.emplace_back();
    value.kind = kind;
    value.size = size;
    value.next = static_cast<uint32_t>(values_.size());
    value.number = number;
    return true;
  }
  bool AddBytes(Value::Kind kind, const char* data, uint32_t size) {
    if (!Add(kind, size)) return false;
    values_.back().data = data;
    return true;
  }
  bool Enter(Value::Kind kind, uint32_t count) {
    if (depth_ >= kMaxHeaderDepth) return Refuse("nested too deeply");
    if (count > kMaxHeaderValues) return Refuse("more values than a header may have");
    open_[depth_++] = static_cast<uint32_t>(values_.size());
    return Add(kind, count);
  }
  bool Leave() {
    values_[open_[--depth_]].next = static_cast<uint32_t>(values_.size());
    return true;
  }
  bool Refuse(const char* why) {
    error_ = why;
    return false;
  }

  std::vector<Value> values_;
  std::array<uint32_t, kMaxHeaderDepth> open_{};  // containers that are not closed yet
  size_t depth_ = 0;
  const char* error_ = nullptr;
};

// Hands the fields of one header to a Schema. The first error stays; later calls do nothing.
class Reader {
 public:
  // `values` is one whole object and outlives the reader.
  explicit Reader(const std::vector<Value>& values) : values_(values) { IndexKeys(); }

  bool ok() const { return status_.ok(); }
  Status TakeStatus() { return std::move(status_); }
  void set_message_name(std::string_view name) { message_name_ = name; }

  template <typename T>
  void Number(std::string_view key, T& value, uint64_t min, uint64_t max) {
    if (const Value* v = Find(key, Value::Kind::kNumber, true)) Store(key, *v, value, min, max);
  }
  template <typename T>
  void NumberOr(std::string_view key, T& value, std::type_identity_t<T> fallback, uint64_t min,
                uint64_t max) {
    value = fallback;
    if (const Value* v = Find(key, Value::Kind::kNumber, false)) Store(key, *v, value, min, max);
  }
  template <typename T>
  void ColumnOr(std::string_view key, T& value, std::type_identity_t<T> fallback, uint64_t min,
                uint64_t max) {
    NumberOr(key, value, fallback, min, max);
  }
  void Text(std::string_view key, std::string& value) {
    if (const Value* v = Find(key, Value::Kind::kStr, true)) StoreText(key, *v, value);
  }
  void TextOr(std::string_view key, std::string& value) {
    if (const Value* v = Find(key, Value::Kind::kStr, false)) StoreText(key, *v, value);
  }
  void Name(std::string_view key, std::string& value) {
    const Value* v = Find(key, Value::Kind::kBin, true);
    if (v != nullptr && FitsIn(key, v->size, kMaxShardNameBytes)) value.assign(v->data, v->size);
  }
  void Hash(std::string_view key, Hash128& value) {
    const Value* v = Find(key, Value::Kind::kBin, true);
    if (v == nullptr) return;
    if (v->size != value.size()) return Fail(key, fmt::format("has {} bytes, not 16", v->size));
    std::memcpy(value.data(), v->data, value.size());
  }
  void Bitmap(std::string_view key, std::vector<uint8_t>& value) {
    const Value* v = Find(key, Value::Kind::kBin, false);
    if (v != nullptr && FitsIn(key, v->size, kMaxBitmapBytes)) {
      value.assign(v->data, v->data + v->size);
    }
  }
  void U32s(std::string_view key, std::vector<uint32_t>& value, size_t max_count) {
    const Value* v = Find(key, Value::Kind::kBin, true);
    if (v == nullptr) return;
    if (v->size % sizeof(uint32_t) != 0) {
      return Fail(key, fmt::format("has {} bytes, not a multiple of 4", v->size));
    }
    if (!FitsIn(key, v->size / sizeof(uint32_t), max_count)) return;
    value.resize(v->size / sizeof(uint32_t));
    if (v->size != 0) std::memcpy(value.data(), v->data, v->size);
  }
  void Texts(std::string_view key, std::vector<std::string>& value, size_t max_count) {
    const Value* v = Find(key, Value::Kind::kArray, true);
    if (v == nullptr || !FitsIn(key, v->size, max_count)) return;
    const Value* element = v + 1;
    for (uint32_t i = 0; i < v->size && ok(); ++i) {
      if (element->kind != Value::Kind::kStr) {
        return Fail(key, fmt::format("element {} is {}, not a str", i, KindName(element->kind)));
      }
      StoreText(key, *element, value.emplace_back());
      element = &values_[0] + element->next;
    }
  }
  template <typename Row>
  void Rows(std::string_view key, std::vector<Row>& rows, size_t min_count, size_t max_count) {
    if (const Value* v = Find(key, Value::Kind::kArray, true)) {
      StoreRows(key, *v, rows, min_count, max_count);
    }
  }
  template <typename Row>
  void RowsOr(std::string_view key, std::vector<Row>& rows, size_t max_count) {
    if (const Value* v = Find(key, Value::Kind::kArray, false)) {
      StoreRows(key, *v, rows, 0, max_count);
    }
  }
  void Require(std::string_view key, bool holds, std::string_view what) {
    if (ok() && !holds) Fail(key, what);
  }

 private:
  // Finds the keys of the top-level map and refuses what can be refused without knowing the type.
  void IndexKeys() {
    if (values_[0].kind != Value::Kind::kMap) return FailHeader("is not a map");
    if (values_[0].size > kMaxHeaderKeys) return FailHeader("has too many keys");
    for (size_t at = 1; at < values_.size(); at = values_[at + 1].next) {
      const Value& key = values_[at];
      if (key.kind != Value::Kind::kStr) return FailHeader("has a key that is not a str");
      for (size_t i = 0; i < key_count_; ++i) {
        if (KeyAt(i) == std::string_view(key.data, key.size)) return Fail(KeyAt(i), "occurs twice");
      }
      keys_[key_count_++] = static_cast<uint32_t>(at);
    }
  }
  std::string_view KeyAt(size_t i) const {
    const Value& key = values_[keys_[i]];
    return {key.data, key.size};
  }

  // The field's value if it is there and of that kind, else null; fails unless it may be missing.
  const Value* Find(std::string_view key, Value::Kind kind, bool required) {
    if (!ok()) return nullptr;
    const Value* found = nullptr;
    if (column_ != nullptr) {
      if (columns_left_ != 0) {
        found = column_;
        column_ = &values_[0] + column_->next;
        --columns_left_;
      }
    } else {
      // Our own writer's order is the order in which a Schema asks, so the first try mostly hits.
      for (size_t i = 0; i < key_count_ && found == nullptr; ++i) {
        const size_t at = (next_key_ + i) % key_count_;
        if (KeyAt(at) != key) continue;
        found = &values_[keys_[at] + 1];
        next_key_ = at + 1;
      }
    }
    if (found == nullptr) {
      if (required) Fail(key, "is missing");
      return nullptr;
    }
    if (found->kind != kind) {
      Fail(key, fmt::format("is {}, not {}", KindName(found->kind), KindName(kind)));
      return nullptr;
    }
    return found;
  }

  template <typename T>
  void Store(std::string_view key, const Value& v, T& value, uint64_t min, uint64_t max) {
    if (v.number < min || v.number > max) {
      return Fail(key, fmt::format("is {}, outside {} to {}", v.number, min, max));
    }
    if constexpr (std::same_as<T, Code>) {
      value = CodeFromNumber(static_cast<int>(v.number));
    } else {
      value = static_cast<T>(v.number);
    }
  }
  void StoreText(std::string_view key, const Value& v, std::string& value) {
    if (!FitsIn(key, v.size, kMaxStringBytes)) return;
    if (ValidUtf8Prefix({v.data, v.size}) != v.size) return Fail(key, "is not valid UTF-8");
    value.assign(v.data, v.size);
  }
  template <typename Row>
  void StoreRows(std::string_view key, const Value& v, std::vector<Row>& rows, size_t min_count,
                 size_t max_count) {
    if (v.size < min_count) return Fail(key, "is empty");
    if (!FitsIn(key, v.size, max_count)) return;
    const Value* row = &v + 1;
    for (uint32_t i = 0; i < v.size && ok(); ++i) {
      if (row->kind != Value::Kind::kArray) {
        return Fail(key, fmt::format("row {} is {}, not an array", i, KindName(row->kind)));
      }
      row_key_ = key;
      row_ = i;
      column_ = row + 1;
      columns_left_ = row->size;
      Schema<Row>::Fields(*this, rows.emplace_back());
      column_ = nullptr;
      row = &values_[0] + row->next;
    }
  }
  bool FitsIn(std::string_view key, size_t size, size_t max) {
    if (size > max) Fail(key, fmt::format("has {} elements or bytes, more than {}", size, max));
    return size <= max;
  }

  void Fail(std::string_view key, std::string_view what) {
    if (column_ != nullptr) {
      status_ = ProtocolError(fmt::format("{}: field \"{}\", row {}, column \"{}\" {}",
                                          message_name_, row_key_, row_, key, what));
    } else {
      // The key may be the peer's: only its printable form goes into a message.
      std::string storage;
      status_ = ProtocolError(
          fmt::format("{}: field \"{}\" {}", message_name_, SendableText(key, 64, &storage), what));
    }
  }
  void FailHeader(std::string_view what) {
    status_ = ProtocolError(fmt::format("message header {}", what));
  }

  const std::vector<Value>& values_;
  Status status_;
  std::string_view message_name_ = "message";
  std::array<uint32_t, kMaxHeaderKeys> keys_{};  // indices of the top-level keys
  size_t key_count_ = 0;
  size_t next_key_ = 0;
  // Inside a row: the next column and how many there are. Columns beyond those known are ignored.
  const Value* column_ = nullptr;
  uint32_t columns_left_ = 0;
  std::string_view row_key_;
  uint32_t row_ = 0;
};

template <typename M>
Result<AnyMessage> ReadAs(Reader* reader) {
  M message;
  reader->set_message_name(Schema<M>::kName);
  Schema<M>::Fields(*reader, message);
  if (!reader->ok()) return reader->TakeStatus();
  return AnyMessage(std::move(message));
}

template <size_t... I>
Result<AnyMessage> ReadType(uint64_t type, Reader* reader, std::index_sequence<I...>) {
  Result<AnyMessage> result = Unsupported(fmt::format("message type {} is not known", type));
  (void)((Schema<std::variant_alternative_t<I, AnyMessage>>::kType == type &&
          (result = ReadAs<std::variant_alternative_t<I, AnyMessage>>(reader), true)) ||
         ...);
  return result;
}

Status BadChunk(std::string what) { return ProtocolError("Chunk: " + std::move(what)); }

}  // namespace

std::vector<uint8_t> Encode(const AnyMessage& message) {
  std::vector<uint8_t> out;
  std::visit(
      [&](const auto& m) {
        out.reserve(256);
        Writer(&out).Message(m);
      },
      message);
  return out;
}

void EncodeChunk(const Chunk& chunk, std::vector<uint8_t>* out) {
  out->clear();
  out->reserve(256 + 3 * sizeof(uint32_t) * chunk.slots.size());
  Writer(out).Message(chunk);
}

Result<AnyMessage> Decode(std::span<const uint8_t> header) {
  if (header.size() > kMaxHeaderBytes) {
    return ProtocolError(
        fmt::format("message header has {} bytes, more than {}", header.size(), kMaxHeaderBytes));
  }
  Collector collector;
  size_t parsed_bytes = 0;
  bool whole = false;
  try {
    whole = msgpack::parse(reinterpret_cast<const char*>(header.data()), header.size(),
                           parsed_bytes, collector);
  } catch (const std::exception& e) {  // an ext of 4 GiB
    return ProtocolError(fmt::format("message header: {}", e.what()));
  }
  if (!whole) {
    return ProtocolError(fmt::format("message header, {} bytes: {}", header.size(),
                                     collector.error() != nullptr ? collector.error() : "bad"));
  }
  if (parsed_bytes != header.size()) {
    return ProtocolError(
        fmt::format("message header: {} bytes behind its end", header.size() - parsed_bytes));
  }
  Reader reader(collector.values());
  uint64_t type = 0;
  reader.Number("t", type, 0, kAnyU64);
  if (!reader.ok()) return reader.TakeStatus();
  return ReadType(type, &reader, std::make_index_sequence<std::variant_size_v<AnyMessage>>());
}

Status CheckChunk(const Chunk& chunk, size_t payload_bytes) {
  const size_t count = chunk.slots.size();
  if (chunk.open_id == 0) return BadChunk("id is 0");
  if (chunk.stream >= kMaxStreams) return BadChunk(fmt::format("stream is {}", chunk.stream));
  if (chunk.sequence == 0) return BadChunk("seq is 0");
  if (count == 0 || count > kMaxChunkRecords) {
    return BadChunk(fmt::format("{} slots, outside 1 to {}", count, kMaxChunkRecords));
  }
  if (chunk.sizes.size() != count || chunk.crcs.size() != count) {
    return BadChunk(fmt::format("{} slots, {} sizes, {} crcs: must be equal", count,
                                chunk.sizes.size(), chunk.crcs.size()));
  }
  if (payload_bytes > kMaxChunkPayloadBytes) {
    return BadChunk(
        fmt::format("payload of {} bytes, more than {}", payload_bytes, kMaxChunkPayloadBytes));
  }
  // Cannot overflow: at most 2^16 values below 2^32.
  uint64_t size_sum = 0;
  for (const uint32_t size : chunk.sizes) size_sum += size;
  if (size_sum != payload_bytes) {
    return BadChunk(
        fmt::format("sizes sum up to {} bytes, the payload frame has {}", size_sum, payload_bytes));
  }
  for (size_t i = 1; i < count; ++i) {
    if (chunk.slots[i] <= chunk.slots[i - 1]) {
      return BadChunk(
          fmt::format("slot {} comes after slot {}", chunk.slots[i], chunk.slots[i - 1]));
    }
  }
  uint64_t flow_bytes = size_sum;
  if (chunk.record_total == 0) {
    if (chunk.record_offset != 0) return BadChunk("offset without total");
    flow_bytes += kRecordOverheadBytes * count;
  } else {
    if (count != 1) return BadChunk(fmt::format("a piece with {} slots, not 1", count));
    if (size_sum == 0) return BadChunk("a piece without bytes");
    if (chunk.record_total > kMaxRecordBytes) {
      return BadChunk(
          fmt::format("total is {}, more than {}", chunk.record_total, kMaxRecordBytes));
    }
    if (chunk.record_offset > chunk.record_total ||
        size_sum > chunk.record_total - chunk.record_offset) {
      return BadChunk(fmt::format("{} bytes at offset {} reach behind the record's {}", size_sum,
                                  chunk.record_offset, chunk.record_total));
    }
    if (chunk.record_offset == 0) flow_bytes += kRecordOverheadBytes;
  }
  if (chunk.flow_end < chunk.flow_begin || chunk.flow_end - chunk.flow_begin != flow_bytes) {
    return BadChunk(fmt::format("flow range {} to {} is not {} bytes long", chunk.flow_begin,
                                chunk.flow_end, flow_bytes));
  }
  return OkStatus();
}

}  // namespace emlio::wire
