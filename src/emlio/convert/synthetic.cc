// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/synthetic.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/endian.h"
#include "emlio/convert/as_bytes.h"
#include "emlio/convert/random.h"
#include "emlio/example/builder.h"
#include "emlio/tfrecord/record.h"

namespace emlio::convert {
namespace {

constexpr uint64_t kIdBytes = sizeof(uint64_t);
constexpr uint64_t kMaxRecordBytes = tfrecord::kDefaultMaxRecordBytes;

void FillRandom(Random random, std::span<uint8_t> bytes) {
  size_t done = 0;
  for (; bytes.size() - done >= sizeof(uint64_t); done += sizeof(uint64_t)) {
    StoreLe(&bytes[done], random.Next());
  }
  for (uint64_t rest = random.Next(); done < bytes.size(); rest >>= 8) {
    bytes[done++] = static_cast<uint8_t>(rest);
  }
}

Status Check(const SyntheticOptions& options) {
  if (options.records == 0) return InvalidArgument("a data set needs at least one record");
  EMLIO_RETURN_IF_ERROR(CheckShardCount(options.shards, options.records));
  const uint64_t least_bytes = options.as_example ? 0 : kIdBytes;
  // An Example is a little larger than its data.
  const uint64_t most_bytes = options.as_example ? kMaxRecordBytes - 1024 : kMaxRecordBytes;
  if (options.record_bytes < least_bytes || options.record_bytes > most_bytes) {
    return InvalidArgument(fmt::format("records of {} bytes: use {} to {}{}", options.record_bytes,
                                       least_bytes, most_bytes,
                                       options.as_example ? "" : " (each begins with its number)"));
  }
  return CheckShardSetOptions(options);
}

}  // namespace

Result<ShardSetSummary> SyntheticShards(const SyntheticOptions& options,
                                        const ProgressFunction& progress) {
  EMLIO_RETURN_IF_ERROR(Check(options));
  constexpr std::string_view kSource = "the options";
  ShardSet set;
  set.options = {{"conversion", "synthetic/1"},
                 {"prefix", options.prefix},
                 {"shards", std::to_string(options.shards)},
                 {"records", std::to_string(options.records)},
                 {"record-bytes", std::to_string(options.record_bytes)},
                 {"seed", std::to_string(options.seed)},
                 {"example", options.as_example ? "yes" : "no"}};
  set.shards = options.shards;
  set.source = [](uint64_t) { return Hash128{}; };
  set.fill = [&](uint64_t shard, ShardSink* sink) -> Status {
    std::vector<uint8_t> bytes(options.record_bytes);
    example::ExampleBuilder builder;
    const uint64_t end = FirstRecord(shard + 1, options.shards, options.records);
    for (uint64_t id = FirstRecord(shard, options.shards, options.records); id < end; ++id) {
      const Random random(options.seed, id);
      if (options.as_example) {
        FillRandom(random, bytes);
        builder.SetInt64("id", static_cast<int64_t>(id));
        builder.SetBytes("data", AsText(bytes));
        EMLIO_RETURN_IF_ERROR(sink->Append(AsBytes(builder.Serialize()), bytes.size(), kSource));
      } else {
        StoreLe(bytes.data(), id);
        FillRandom(random, std::span(bytes).subspan(kIdBytes));
        EMLIO_RETURN_IF_ERROR(sink->Append(bytes, bytes.size(), kSource));
      }
    }
    return OkStatus();
  };
  set.total.records_total = options.records;
  set.total.bytes_total = options.records * options.record_bytes;
  return MakeShardSet(options, set, progress);
}

}  // namespace emlio::convert
