// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "emlio/wire/messages.h"

// One of every message, for tests. Their bytes are in testdata/<name>.bin, which is also where the
// fuzzer starts; those that PROTOCOL.md works through have the values given there.
namespace emlio::wire {

struct Sample {
  std::string name;  // file name without ".bin"
  AnyMessage message;
};

inline Hash128 SampleHash(uint8_t first) {
  Hash128 hash{};
  for (size_t i = 0; i < hash.size(); ++i) hash[i] = static_cast<uint8_t>(first + i);
  return hash;
}

inline std::vector<Sample> Samples() {
  constexpr OpenId kId = 0x1122334455667788;
  std::vector<Sample> samples;
  samples.push_back({"hello", Hello{.min_version = 1, .max_version = 1, .agent = "example/1"}});
  samples.push_back({"welcome", Welcome{.version = 1,
                                        .agent = "emlio/0.1.0",
                                        .run_id = SampleHash(0xa0),
                                        .datasets = {"train", "val"}}});
  samples.push_back({"welcome_energy", Welcome{.version = 1,
                                               .agent = "emlio/0.1.0",
                                               .run_id = SampleHash(0xa0),
                                               .datasets = {"train"},
                                               .energy_port = 7778}});
  samples.push_back({"welcome_boot", Welcome{.version = 1,
                                             .agent = "emlio/0.1.0",
                                             .run_id = SampleHash(0xa0),
                                             .datasets = {"train"},
                                             .boot_id = "0d1b7a35-9b6c-4c53-8f0e-2a44c3d1e6f7"}});
  samples.push_back({"describe", Describe{.dataset = "train"}});
  samples.push_back({"manifest_page", ManifestPage{.dataset = "train",
                                                   .digest = SampleHash(0x10),
                                                   .page = 1,
                                                   .pages = 3,
                                                   .shards = {{.name = "a-\xff.tfrecord",
                                                               .records = 1000,
                                                               .payload_bytes = 100000000,
                                                               .max_record_bytes = 123456,
                                                               .fingerprint = SampleHash(0x20),
                                                               .unreadable_bytes = 300},
                                                              {.name = "b.tfrecord",
                                                               .records = 1,
                                                               .payload_bytes = 0,
                                                               .max_record_bytes = 0,
                                                               .fingerprint = SampleHash(0x30)}}}});
  samples.push_back({"need_manifest", NeedManifest{.open_id = kId, .digest = SampleHash(0x10)}});
  Open open;
  open.open_id = kId;
  open.dataset = "train";
  open.sources = {{.manifest_digest = SampleHash(0x10), .shuffle = 1}};
  open.seed = 42;
  open.global_batch = 64;
  open.tail = 1;
  open.streams = 2;
  open.credit_bytes = 67108864;
  samples.push_back({"open", open});
  samples.push_back(
      {"open_full", Open{.open_id = kId,
                         .dataset = "train",
                         .job = "job-\xc3\xa9",
                         .loader = "train",
                         .sources = {{.manifest_digest = SampleHash(0x10), .weight = 3},
                                     {.manifest_digest = SampleHash(0x20),
                                      .shuffle = 2,
                                      .block_records = 10,
                                      .window_blocks = 70000}},
                         .seed = ~uint64_t{0},
                         .global_batch = 4096,
                         .tail = 2,
                         .plan_hash = SampleHash(0x40),
                         .rank = 7,
                         .world_size = 8,
                         .epoch = 5,
                         .step = 1234,
                         .epochs = 0,
                         .stride = 3,
                         .assigned = {0x05, 0x80},
                         .filled = {0xff},
                         .streams = 256,
                         .credit_bytes = uint64_t{1} << 40,
                         .max_chunk_bytes = 262144}});
  samples.push_back(
      {"opened", Opened{.open_id = kId, .steps_per_epoch = 5005, .plan_hash = SampleHash(0x40)}});
  samples.push_back(
      {"join", Join{.open_id = kId, .stream = 1, .generation = 2, .last_sequence = 300}});
  samples.push_back({"chunk", Chunk{.open_id = kId,
                                    .stream = 1,
                                    .generation = 0,
                                    .sequence = 1,
                                    .epoch = 0,
                                    .step = 2,
                                    .flow_begin = 4096,
                                    .flow_end = 4137,
                                    .slots = {0, 5},
                                    .sizes = {9, 0},
                                    .crcs = {0xe3069283, 0}}});
  samples.push_back({"chunk_piece", Chunk{.open_id = kId,
                                          .stream = 0,
                                          .generation = 1,
                                          .sequence = 70000,
                                          .epoch = 3,
                                          .step = 9,
                                          .flow_begin = 5000000000,
                                          .flow_end = 5004194304,
                                          .slots = {17},
                                          .sizes = {4194304},
                                          .crcs = {0x12345678},
                                          .record_offset = 8388608,
                                          .record_total = 104857600}});
  samples.push_back({"grant", Grant{.open_id = kId,
                                    .limit = 67112960,
                                    .epoch = 0,
                                    .step = 3,
                                    .acks = {{.stream = 0, .generation = 0, .sequence = 2},
                                             {.stream = 1, .generation = 0, .sequence = 1}}}});
  samples.push_back({"fill", Fill{.open_id = kId,
                                  .epoch = 0,
                                  .step = 2,
                                  .slots = {3, 70000},
                                  .reason = FillReason::kLost}});
  samples.push_back({"skip", Skip{.open_id = kId,
                                  .epoch = 0,
                                  .step = 2,
                                  .slot = 3,
                                  .shard = "a-\xff.tfrecord",
                                  .record = 17,
                                  .offset = 1700272,
                                  .code = Code::kCorrupt,
                                  .message = "payload checksum does not match"}});
  samples.push_back({"skip_unsent", Skip{.open_id = kId,
                                         .epoch = 4,
                                         .step = 70000,
                                         .slot = 0,
                                         .shard = "b.tfrecord",
                                         .record = 0,
                                         .offset = 0,
                                         .code = Code::kIo,
                                         .message = "cannot be read",
                                         .flow_begin = 4137,
                                         .flow_end = 5000000000}});
  samples.push_back(
      {"error", Error{.open_id = 0, .code = Code::kUnsupported, .message = "version 2 to 3"}});
  samples.push_back(
      {"epoch_end", EpochEnd{.open_id = kId,
                             .epoch = 0,
                             .flow_position = 123456789,
                             .streams = {{.stream = 0, .generation = 1, .sequence = 20},
                                         {.stream = 1, .generation = 0, .sequence = 0}}}});
  samples.push_back({"ping", Ping{.nonce = 7}});
  samples.push_back({"pong", Pong{.nonce = 7}});
  samples.push_back({"close", Close{.open_id = kId}});
  return samples;
}

}  // namespace emlio::wire
