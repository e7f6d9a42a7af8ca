// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Private to this module: walks a serialized tf.train.Example as protocol buffers demand it.
//   Example    { Features features = 1; }
//   Features   { map<string, Feature> feature = 1; }    entry: { key = 1; value = 2; }
//   Feature    { oneof { BytesList bytes_list = 1; FloatList float_list = 2;
//                        Int64List int64_list = 3; } }
//   each list  { repeated value = 1; }                  packed or not, in any number of chunks
// A message that occurs again is merged with the one before; a map entry with the same key replaces
// it; of a oneof the last one counts. Unknown fields are skipped. The depth is fixed, so nothing
// recurses. All functions throw protozero::exception on malformed input: callers catch it.
// https://protobuf.dev/programming-guides/encoding/

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/varint.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/example/feature_spec.h"

namespace emlio::example::wire {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

inline constexpr protozero::pbf_tag_type kExampleFeatures = 1;
inline constexpr protozero::pbf_tag_type kFeaturesEntry = 1;
inline constexpr protozero::pbf_tag_type kEntryKey = 1;
inline constexpr protozero::pbf_tag_type kEntryValue = 2;
inline constexpr protozero::pbf_tag_type kBytesList = 1;
inline constexpr protozero::pbf_tag_type kFloatList = 2;
inline constexpr protozero::pbf_tag_type kInt64List = 3;
inline constexpr protozero::pbf_tag_type kListValue = 1;

inline protozero::data_view ToView(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const uint8_t> ToSpan(protozero::data_view view) {
  return {reinterpret_cast<const uint8_t*>(view.data()), view.size()};
}

// Calls visit(name, entry) for every map entry in the order of the record. `entry` holds key and
// value and is what ReadFeature takes.
template <typename Visit>
void ForEachEntry(std::span<const uint8_t> record, Visit&& visit) {
  pbf_reader example(ToView(record));
  while (example.next(kExampleFeatures, pbf_wire_type::length_delimited)) {
    pbf_reader features = example.get_message();
    while (features.next(kFeaturesEntry, pbf_wire_type::length_delimited)) {
      const protozero::data_view entry = features.get_view();
      std::string_view name;
      pbf_reader fields(entry);
      while (fields.next()) {
        if (fields.tag_and_type() == tag_and_type(kEntryKey, pbf_wire_type::length_delimited)) {
          const protozero::data_view key = fields.get_view();
          name = {key.data(), key.size()};
        } else {
          fields.skip();
        }
      }
      visit(name, entry);
    }
  }
}

// Calls sink.Start(kind) whenever values of another kind begin (what came before is then void), and
// for the values sink.Bytes(view), sink.Int64(value), sink.Floats(packed little-endian bytes, a
// multiple of 4). Nothing is called for a feature that has no list at all.
template <typename Sink>
void ReadFeature(protozero::data_view entry, Sink& sink) {
  std::optional<FeatureKind> current;
  const auto start = [&](FeatureKind kind) {
    if (current != kind) sink.Start(kind);
    current = kind;
  };
  pbf_reader fields(entry);
  while (fields.next(kEntryValue, pbf_wire_type::length_delimited)) {
    pbf_reader feature = fields.get_message();
    while (feature.next()) {
      if (feature.wire_type() != pbf_wire_type::length_delimited) {
        feature.skip();
        continue;
      }
      switch (feature.tag()) {
        case kBytesList: {
          start(FeatureKind::kBytes);
          pbf_reader list = feature.get_message();
          while (list.next(kListValue, pbf_wire_type::length_delimited)) {
            sink.Bytes(list.get_view());
          }
          break;
        }
        case kFloatList: {
          start(FeatureKind::kFloat);
          pbf_reader list = feature.get_message();
          while (list.next()) {
            if (list.tag() == kListValue && list.wire_type() == pbf_wire_type::length_delimited) {
              const protozero::data_view packed = list.get_view();
              if (packed.size() % sizeof(float) != 0) throw protozero::invalid_length_exception{};
              sink.Floats(packed);
            } else if (list.tag() == kListValue && list.wire_type() == pbf_wire_type::fixed32) {
              const uint32_t bits = list.get_fixed32();
              sink.Floats({reinterpret_cast<const char*>(&bits), sizeof(bits)});
            } else {
              list.skip();
            }
          }
          break;
        }
        case kInt64List: {
          start(FeatureKind::kInt64);
          pbf_reader list = feature.get_message();
          while (list.next()) {
            if (list.tag() == kListValue && list.wire_type() == pbf_wire_type::length_delimited) {
              const protozero::data_view packed = list.get_view();
              const char* at = packed.data();
              const char* const end = at + packed.size();
              while (at != end) {
                sink.Int64(static_cast<int64_t>(protozero::decode_varint(&at, end)));
              }
            } else if (list.tag() == kListValue && list.wire_type() == pbf_wire_type::varint) {
              sink.Int64(list.get_int64());
            } else {
              list.skip();
            }
          }
          break;
        }
        default:
          feature.skip();
      }
    }
  }
}

// A sink that appends the values of one kind to a vector, at most `max_values` of them, and counts
// all. T is int64_t, float or std::span<const uint8_t>, as the kind demands.
template <FeatureKind kKind, typename T>
class Collector {
 public:
  Collector(std::vector<T>* to, uint64_t max_values)
      : to_(to), begin_(to->size()), max_values_(max_values) {}

  void Start(FeatureKind kind) {
    kind_ = kind;
    values_ = 0;
    to_->resize(begin_);
  }
  void Bytes(protozero::data_view value) {
    if constexpr (kKind == FeatureKind::kBytes) {
      if (++values_ <= max_values_) to_->push_back(ToSpan(value));
    }
  }
  void Int64(int64_t value) {
    if constexpr (kKind == FeatureKind::kInt64) {
      if (++values_ <= max_values_) to_->push_back(value);
    }
  }
  void Floats(protozero::data_view packed) {
    if constexpr (kKind == FeatureKind::kFloat) {
      values_ += packed.size() / sizeof(float);
      if (values_ > max_values_ || packed.size() == 0) return;
      const size_t before = to_->size();
      to_->resize(before + packed.size() / sizeof(float));
      std::memcpy(to_->data() + before, packed.data(), packed.size());
    }
  }

  // nullopt when the feature has no list.
  std::optional<FeatureKind> kind() const { return kind_; }
  uint64_t values() const { return values_; }

 private:
  std::vector<T>* const to_;
  const size_t begin_;
  const uint64_t max_values_;
  std::optional<FeatureKind> kind_;
  uint64_t values_ = 0;
};

// A feature's name for a message: bytes that no terminal should see are escaped.
std::string Quoted(std::string_view name);

}  // namespace emlio::example::wire
