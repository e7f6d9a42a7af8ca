// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <msgpack.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "emlio/wire/codec_samples.h"
#include "emlio/wire/messages.h"

namespace emlio::wire {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

Bytes ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

Status DecodeStatus(const Bytes& bytes) { return Decode(bytes).status(); }

template <typename M>
M DecodeAs(const Bytes& bytes) {
  Result<AnyMessage> decoded = Decode(bytes);
  EXPECT_TRUE(decoded.ok()) << decoded.status().ToString();
  return decoded.ok() ? std::get<M>(*decoded) : M{};
}

template <typename M>
M SampleOf(const std::string& name) {
  for (const Sample& sample : Samples()) {
    if (sample.name == name) return std::get<M>(sample.message);
  }
  ADD_FAILURE() << "no sample " << name;
  return {};
}

// A header made by hand: a map of whatever keys and values.
class Header {
 public:
  explicit Header(uint32_t pairs) : packer_(buffer_) { packer_.pack_map(pairs); }
  template <typename T>
  Header& Pair(const std::string& key, const T& value) {
    packer_.pack(key);
    packer_.pack(value);
    return *this;
  }
  Header& Bin(const std::string& key, size_t size) {
    packer_.pack(key);
    packer_.pack_bin(static_cast<uint32_t>(size));
    const std::string body(size, 'x');
    packer_.pack_bin_body(body.data(), static_cast<uint32_t>(size));
    return *this;
  }
  Bytes bytes() const { return Bytes(buffer_.data(), buffer_.data() + buffer_.size()); }

 private:
  msgpack::sbuffer buffer_;
  msgpack::packer<msgpack::sbuffer> packer_;
};

// EMLIO_UPDATE_GOLDEN=1 writes the files anew; a changed byte is a change of the protocol.
TEST(Codec, EncodesEveryMessageToItsGoldenBytes) {
  for (const Sample& sample : Samples()) {
    const std::string path = std::string(EMLIO_WIRE_DIR) + "/testdata/" + sample.name + ".bin";
    const Bytes encoded = Encode(sample.message);
    if (std::getenv("EMLIO_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(encoded.data()),
                 static_cast<std::streamsize>(encoded.size()));
    }
    EXPECT_EQ(encoded, ReadFile(path)) << sample.name;
  }
}

TEST(Codec, DecodesEveryMessageToWhatWasEncoded) {
  for (const Sample& sample : Samples()) {
    const Bytes encoded = Encode(sample.message);
    Result<AnyMessage> decoded = Decode(encoded);
    ASSERT_TRUE(decoded.ok()) << sample.name << ": " << decoded.status().ToString();
    EXPECT_EQ(decoded->index(), sample.message.index()) << sample.name;
    EXPECT_EQ(Encode(*decoded), encoded) << sample.name;
  }
}

TEST(Codec, PutsEveryFieldWhereItBelongs) {
  const auto open = DecodeAs<Open>(Encode(SampleOf<Open>("open_full")));
  EXPECT_EQ(open.open_id, 0x1122334455667788u);
  EXPECT_EQ(open.dataset, "train");
  EXPECT_EQ(open.job, "job-\xc3\xa9");
  ASSERT_EQ(open.sources.size(), 2u);
  EXPECT_EQ(open.sources[0].weight, 3u);
  EXPECT_EQ(open.sources[1].shuffle, 2);
  EXPECT_EQ(open.sources[1].block_records, 10u);
  EXPECT_EQ(open.sources[1].window_blocks, 70000u);
  EXPECT_EQ(open.sources[1].manifest_digest, SampleHash(0x20));
  EXPECT_EQ(open.seed, ~uint64_t{0});
  EXPECT_EQ(open.global_batch, 4096u);
  EXPECT_EQ(open.rank, 7u);
  EXPECT_EQ(open.world_size, 8u);
  EXPECT_EQ(open.epoch, 5u);
  EXPECT_EQ(open.step, 1234u);
  EXPECT_EQ(open.epochs, 0u);
  EXPECT_EQ(open.stride, 3u);
  EXPECT_EQ(open.assigned, (Bytes{0x05, 0x80}));
  EXPECT_EQ(open.filled, (Bytes{0xff}));
  EXPECT_EQ(open.streams, 256u);
  EXPECT_EQ(open.max_chunk_bytes, 262144u);

  const auto chunk = DecodeAs<Chunk>(Encode(SampleOf<Chunk>("chunk")));
  EXPECT_EQ(chunk.slots, (std::vector<uint32_t>{0, 5}));
  EXPECT_EQ(chunk.sizes, (std::vector<uint32_t>{9, 0}));
  EXPECT_EQ(chunk.crcs, (std::vector<uint32_t>{0xe3069283, 0}));
  EXPECT_EQ(chunk.flow_begin, 4096u);
  EXPECT_EQ(chunk.flow_end, 4137u);
  EXPECT_EQ(chunk.record_total, 0u);

  const auto page = DecodeAs<ManifestPage>(Encode(SampleOf<ManifestPage>("manifest_page")));
  EXPECT_EQ(page.shards, SampleOf<ManifestPage>("manifest_page").shards);
  const auto grant = DecodeAs<Grant>(Encode(SampleOf<Grant>("grant")));
  EXPECT_EQ(grant.acks, SampleOf<Grant>("grant").acks);
}

TEST(Codec, LeavesOutFieldsThatHaveTheirDefaults) {
  Grant grant = SampleOf<Grant>("grant");
  const size_t with_acks = Encode(grant).size();
  grant.acks.clear();
  // The key (5 bytes), the array of two (1) and its rows (4 each).
  EXPECT_EQ(Encode(grant).size(), with_acks - 5 - 1 - 2 * 4);
  EXPECT_TRUE(DecodeAs<Grant>(Encode(grant)).acks.empty());
  EXPECT_EQ(DecodeAs<Open>(Encode(SampleOf<Open>("open"))).max_chunk_bytes, kMaxChunkPayloadBytes);
}

TEST(Codec, EncodeChunkGivesTheSameBytesAndReplacesWhatWasThere) {
  const auto chunk = SampleOf<Chunk>("chunk_piece");
  Bytes out(5000, 0xee);
  EncodeChunk(chunk, &out);
  EXPECT_EQ(out, Encode(chunk));
  const size_t capacity = out.capacity();
  EncodeChunk(chunk, &out);
  EXPECT_EQ(out, Encode(chunk));
  EXPECT_EQ(out.capacity(), capacity);
}

TEST(Codec, AFullChunkRoundTrips) {
  Chunk chunk = SampleOf<Chunk>("chunk");
  chunk.slots.resize(kMaxChunkRecords);
  chunk.sizes.assign(kMaxChunkRecords, 1);
  chunk.crcs.assign(kMaxChunkRecords, 0xdeadbeef);
  for (uint32_t i = 0; i < kMaxChunkRecords; ++i) chunk.slots[i] = i * 3;
  chunk.flow_end = chunk.flow_begin + 17 * kMaxChunkRecords;
  EXPECT_TRUE(CheckChunk(chunk, kMaxChunkRecords).ok());
  const auto decoded = DecodeAs<Chunk>(Encode(chunk));
  EXPECT_EQ(decoded.slots, chunk.slots);
  EXPECT_EQ(decoded.crcs, chunk.crcs);
}

// Blocks "```hex NAME" of the document: bytes up to '#' on each line.
TEST(ProtocolDocument, WorkedBytesAreThoseOfTheCodec) {
  std::ifstream in(std::string(EMLIO_WIRE_DIR) + "/PROTOCOL.md");
  ASSERT_TRUE(in);
  std::map<std::string, Bytes> blocks;
  std::string block;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("```", 0) == 0) {
      block = line.rfind("```hex ", 0) == 0 ? line.substr(7) : "";
    } else if (!block.empty()) {
      std::istringstream words(line.substr(0, line.find('#')));
      for (std::string word; words >> word;) {
        blocks[block].push_back(static_cast<uint8_t>(std::stoul(word, nullptr, 16)));
      }
    }
  }
  EXPECT_EQ(blocks.size(), 5u);
  for (const Sample& sample : Samples()) {
    const auto found = blocks.find(sample.name);
    if (found == blocks.end()) continue;
    EXPECT_EQ(found->second, Encode(sample.message)) << sample.name;
    blocks.erase(found);
  }
  EXPECT_TRUE(blocks.empty()) << blocks.begin()->first << " is no sample";
}

TEST(Decode, RefusesEveryMessageCutAtAnyByte) {
  for (const Sample& sample : Samples()) {
    const Bytes encoded = Encode(sample.message);
    for (size_t size = 0; size < encoded.size(); ++size) {
      // A buffer of exactly that size, so that a sanitizer sees a read behind it.
      const Bytes cut(encoded.begin(), encoded.begin() + static_cast<ptrdiff_t>(size));
      EXPECT_EQ(DecodeStatus(cut).code(), Code::kProtocol) << sample.name << " cut to " << size;
    }
  }
}

TEST(Decode, SurvivesEveryFlippedByte) {
  for (const Sample& sample : Samples()) {
    const Bytes encoded = Encode(sample.message);
    for (size_t at = 0; at < encoded.size(); ++at) {
      for (int flip = 1; flip < 256; ++flip) {
        Bytes bad = encoded;
        bad[at] ^= static_cast<uint8_t>(flip);
        Result<AnyMessage> decoded = Decode(bad);
        if (!decoded.ok()) {
          EXPECT_TRUE(decoded.status().code() == Code::kProtocol ||
                      decoded.status().code() == Code::kUnsupported);
          continue;
        }
        const Bytes canonical = Encode(*decoded);
        Result<AnyMessage> again = Decode(canonical);
        ASSERT_TRUE(again.ok()) << sample.name << " byte " << at << ": "
                                << again.status().ToString();
        EXPECT_EQ(Encode(*again), canonical);
      }
    }
  }
}

TEST(Decode, RefusesBytesBehindTheMessage) {
  Bytes bytes = Encode(Ping{.nonce = 1});
  bytes.push_back(0xc0);
  EXPECT_EQ(DecodeStatus(bytes).code(), Code::kProtocol);
  EXPECT_THAT(DecodeStatus(bytes).message(), HasSubstr("1 bytes behind"));
}

// https://github.com/msgpack/msgpack-c/issues/1013 and its like.
TEST(Decode, RefusesDeclaredSizesThatAreNotThereWithoutAllocatingThem) {
  std::vector<Bytes> attacks = {
      {0xdd, 0xff, 0x00, 0x00, 0x00},                                 // array of 4e9
      {0xdf, 0xff, 0xff, 0xff, 0xff},                                 // map of 4e9
      {0xc6, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},  // bin of 4 GB
      {0xdb, 0xff, 0xff, 0xff, 0xff, 1},                              // str of 4 GB
      {0xc9, 0xff, 0xff, 0xff, 0xff, 1},                              // ext of 4 GB
      {0x82, 0xa1, 't', 0x09, 0xa5, 's', 'l', 'o', 't', 's', 0xc6, 0xff, 0xff, 0xff, 0xff, 0},
      {0x82, 0xa1, 't', 0x0a, 0xa4, 'a', 'c', 'k', 's', 0xdd, 0x00, 0x01, 0x00, 0x00, 0x90},
      {0xc1},  // never used by msgpack
  };
  attacks.push_back(Bytes(100'000, 0x91));  // nested arrays
  attacks.push_back(Bytes(100'000, 0x81));  // nested maps
  Bytes flat = {0xdd, 0x00, 0x0f, 0x42, 0x40};
  flat.resize(flat.size() + 1'000'000, 0xc0);  // a million nils
  attacks.push_back(flat);
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  for (const Bytes& attack : attacks) {
    EXPECT_EQ(DecodeStatus(attack).code(), Code::kProtocol) << "starts with " << +attack[0];
  }
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 10 * 1024);  // KiB
}

TEST(Decode, RefusesAPickle) {
  // pickle.dumps(..., protocol=4) of an object whose loading would run a command.
  const std::string pickle(
      "\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94"
      "\x8c\x04true\x94\x85\x94R\x94.",
      40);
  const Bytes bytes(pickle.begin(), pickle.end());
  EXPECT_EQ(DecodeStatus(bytes).code(), Code::kProtocol);
}

TEST(Decode, RefusesWhatIsNoMapOfStrings) {
  EXPECT_EQ(DecodeStatus({}).code(), Code::kProtocol);
  EXPECT_EQ(DecodeStatus({0x01}).code(), Code::kProtocol);
  EXPECT_EQ(DecodeStatus({0x80}).code(), Code::kProtocol);              // no "t"
  EXPECT_EQ(DecodeStatus({0x81, 0x01, 0x0f}).code(), Code::kProtocol);  // key 1
}

TEST(Decode, UnknownTypeIsUnsupported) {
  const Status status = DecodeStatus(Header(1).Pair("t", 99).bytes());
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("99"));
}

TEST(Decode, IgnoresKeysAndColumnsItDoesNotKnow) {
  const std::map<std::string, std::vector<int>> nested = {{"a", {1, 2}}};
  EXPECT_EQ(DecodeAs<Ping>(
                Header(4).Pair("later", nested).Pair("nonce", 5).Pair("t", 15).Pair("x", 1).bytes())
                .nonce,
            5u);
  const auto end = DecodeAs<EpochEnd>(
      Header(5)
          .Pair("t", 14)
          .Pair("id", 1)
          .Pair("epoch", 0)
          .Pair("flow", 0)
          .Pair("streams", std::vector<std::vector<int>>{{1, 2, 3, 4}, {5, 6, 7}})
          .bytes());
  EXPECT_EQ(end.streams, (std::vector<EpochEnd::StreamEnd>{{1, 2, 3}, {5, 6, 7}}));
}

TEST(Decode, AcceptsAnyWidthOfInteger) {
  for (const Bytes& number :
       {Bytes{0x07}, Bytes{0xcc, 7}, Bytes{0xcd, 0, 7}, Bytes{0xce, 0, 0, 0, 7},
        Bytes{0xcf, 0, 0, 0, 0, 0, 0, 0, 7}, Bytes{0xd0, 7}, Bytes{0xd3, 0, 0, 0, 0, 0, 0, 0, 7}}) {
    Bytes bytes = {0x82, 0xa1, 't', 0x0f, 0xa5, 'n', 'o', 'n', 'c', 'e'};
    bytes.insert(bytes.end(), number.begin(), number.end());
    EXPECT_EQ(DecodeAs<Ping>(bytes).nonce, 7u);
  }
}

TEST(Decode, NamesTheFieldThatIsWrong) {
  const auto message = [](const Bytes& bytes) {
    const Status status = DecodeStatus(bytes);
    EXPECT_EQ(status.code(), Code::kProtocol);
    return status.message();
  };
  EXPECT_THAT(message(Header(1).Pair("t", 15).bytes()),
              HasSubstr("Ping: field \"nonce\" is missing"));
  EXPECT_THAT(message(Header(2).Pair("t", 15).Pair("nonce", "seven").bytes()),
              HasSubstr("field \"nonce\" is a str, not an unsigned integer"));
  EXPECT_THAT(message(Header(2).Pair("t", 15).Pair("nonce", -1).bytes()),
              HasSubstr("field \"nonce\""));
  EXPECT_THAT(message(Header(2).Pair("t", 15).Pair("nonce", 1.5).bytes()),
              HasSubstr("field \"nonce\""));
  EXPECT_THAT(message(Header(3).Pair("t", 15).Pair("nonce", 1).Pair("nonce", 1).bytes()),
              HasSubstr("field \"nonce\" occurs twice"));
  EXPECT_THAT(message(Header(2).Pair("t", 17).Pair("id", 0).bytes()),
              HasSubstr("Close: field \"id\" is 0"));
  EXPECT_THAT(message(Header(3).Pair("t", 1).Pair("min", 2).Pair("max", 1).bytes()),
              HasSubstr("field \"max\" is below min"));
  EXPECT_THAT(message(Header(2).Pair("t", 3).Pair("dataset", "caf\xe9").bytes()),
              HasSubstr("field \"dataset\" is not valid UTF-8"));
  EXPECT_THAT(message(Header(3).Pair("t", 5).Pair("id", 1).Bin("digest", 15).bytes()),
              HasSubstr("field \"digest\" has 15 bytes, not 16"));
  EXPECT_THAT(message(Header(6)
                          .Pair("t", 11)
                          .Pair("id", 1)
                          .Pair("epoch", 0)
                          .Pair("step", 0)
                          .Bin("slots", 7)
                          .Pair("reason", 1)
                          .bytes()),
              HasSubstr("field \"slots\" has 7 bytes, not a multiple of 4"));
  EXPECT_THAT(message(Header(5)
                          .Pair("t", 14)
                          .Pair("id", 1)
                          .Pair("epoch", 0)
                          .Pair("flow", 0)
                          .Pair("streams", std::vector<std::vector<int>>{{1, 2, 3}, {4, 5}})
                          .bytes()),
              HasSubstr("field \"streams\", row 1, column \"seq\" is missing"));
}

TEST(Decode, ColumnsWithADefaultMayBeMissing) {
  Bytes bytes = Encode(SampleOf<Open>("open"));
  const Bytes row_begin = {0x95, 0xc4, 0x10};  // array of 5, bin of 16 bytes
  const auto row = std::search(bytes.begin(), bytes.end(), row_begin.begin(), row_begin.end());
  ASSERT_NE(row, bytes.end());
  for (uint8_t columns : {4, 3}) {
    *row = static_cast<uint8_t>(0x90 + columns);
    bytes.erase(row + 3 + 16 + 2);  // behind the digest, weight and shuffle
    const auto open = DecodeAs<Open>(bytes);
    ASSERT_EQ(open.sources.size(), 1u);
    EXPECT_EQ(open.sources[0].shuffle, 1);
    EXPECT_EQ(open.sources[0].block_records, 0u);
    EXPECT_EQ(open.sources[0].window_blocks, 0u);
    EXPECT_EQ(open.seed, 42u);
  }
  *row = 0x92;
  bytes.erase(row + 3 + 16 + 1);
  EXPECT_THAT(DecodeStatus(bytes).message(), HasSubstr("column \"shuffle\" is missing"));
}

TEST(Decode, RefusesEachLimitExceededByOne) {
  const auto refused = [](const AnyMessage& message, const std::string& field) {
    const Status status = DecodeStatus(Encode(message));
    EXPECT_EQ(status.code(), Code::kProtocol) << field;
    EXPECT_THAT(status.message(), HasSubstr("\"" + field + "\""));
  };
  Welcome welcome = SampleOf<Welcome>("welcome");
  welcome.datasets.assign(kMaxDatasets + 1, "x");
  refused(welcome, "datasets");

  ManifestPage page = SampleOf<ManifestPage>("manifest_page");
  page.shards.assign(kMaxManifestPageShards + 1, page.shards[0]);
  refused(page, "shards");
  page.shards.assign(1, {.name = std::string(kMaxShardNameBytes + 1, 'n')});
  refused(page, "name");
  page.shards[0] = {.name = ""};
  refused(page, "name");
  page.shards[0] = {.name = "n", .max_record_bytes = kMaxRecordBytes + 1};
  refused(page, "max_record_bytes");
  page.shards.clear();
  page.page = 3;
  refused(page, "page");
  page.pages = kMaxManifestPages + 1;
  refused(page, "pages");

  Open open = SampleOf<Open>("open");
  open.assigned.assign(kMaxBitmapBytes + 1, 0xff);
  refused(open, "assigned");
  open = SampleOf<Open>("open");
  open.filled.assign(kMaxBitmapBytes + 1, 0xff);
  refused(open, "filled");
  open = SampleOf<Open>("open");
  open.sources.assign(kMaxSources + 1, {});
  refused(open, "sources");
  open.sources.clear();
  refused(open, "sources");
  open = SampleOf<Open>("open");
  open.streams = kMaxStreams + 1;
  refused(open, "streams");
  open.streams = 0;
  refused(open, "streams");
  open = SampleOf<Open>("open");
  open.max_chunk_bytes = kMaxChunkPayloadBytes + 1;
  refused(open, "max_chunk");
  open.max_chunk_bytes = 4095;
  refused(open, "max_chunk");

  refused(Join{.open_id = 1, .stream = kMaxStreams}, "stream");

  Chunk chunk = SampleOf<Chunk>("chunk");
  chunk.slots.assign(kMaxChunkRecords + 1, 0);
  refused(chunk, "slots");
  chunk = SampleOf<Chunk>("chunk");
  chunk.sequence = 0;
  refused(chunk, "seq");
  chunk = SampleOf<Chunk>("chunk");
  chunk.record_total = kMaxRecordBytes + 1;
  refused(chunk, "total");

  Grant grant = SampleOf<Grant>("grant");
  grant.acks.assign(kMaxStreams + 1, {});
  refused(grant, "acks");

  Fill fill = SampleOf<Fill>("fill");
  fill.slots.assign(kMaxChunkRecords + 1, 0);
  refused(fill, "slots");
  fill.slots.clear();
  refused(fill, "slots");
  fill = SampleOf<Fill>("fill");
  fill.reason = static_cast<FillReason>(3);
  refused(fill, "reason");

  Skip skip = SampleOf<Skip>("skip");
  skip.shard.assign(kMaxShardNameBytes + 1, 's');
  refused(skip, "shard");
  skip = SampleOf<Skip>("skip_unsent");
  skip.flow_begin = skip.flow_end + 1;
  refused(skip, "end");

  refused(Error{.open_id = 0, .code = Code::kOk, .message = ""}, "code");
}

TEST(Decode, AcceptsEachLimitItself) {
  ManifestPage page = SampleOf<ManifestPage>("manifest_page");
  page.shards.assign(kMaxManifestPageShards, page.shards[0]);
  EXPECT_EQ(DecodeAs<ManifestPage>(Encode(page)).shards.size(), kMaxManifestPageShards);
  Welcome welcome = SampleOf<Welcome>("welcome");
  welcome.datasets.assign(kMaxDatasets, "x");
  EXPECT_EQ(DecodeAs<Welcome>(Encode(welcome)).datasets.size(), kMaxDatasets);
  Open open = SampleOf<Open>("open");
  open.assigned.assign(kMaxBitmapBytes, 0xff);
  open.filled.assign(kMaxBitmapBytes, 0xff);
  open.sources.assign(kMaxSources, open.sources[0]);
  EXPECT_EQ(DecodeAs<Open>(Encode(open)).filled, open.filled);
}

TEST(Decode, RefusesAHeaderOverTheLimitWhateverIsInIt) {
  Bytes bytes = Header(3).Pair("t", 15).Pair("nonce", 1).Bin("later", kMaxHeaderBytes).bytes();
  EXPECT_EQ(DecodeStatus(bytes).code(), Code::kProtocol);
  bytes = Header(3).Pair("t", 15).Pair("nonce", 1).Bin("later", kMaxHeaderBytes - 64).bytes();
  EXPECT_EQ(DecodeAs<Ping>(bytes).nonce, 1u);
}

TEST(Decode, RefusesMoreThan64Keys) {
  const auto with_keys = [](int extra) {
    Header header(static_cast<uint32_t>(2 + extra));
    header.Pair("t", 15).Pair("nonce", 1);
    for (int i = 0; i < extra; ++i) header.Pair("k" + std::to_string(i), i);
    return header.bytes();
  };
  EXPECT_TRUE(Decode(with_keys(62)).ok());
  EXPECT_EQ(DecodeStatus(with_keys(63)).code(), Code::kProtocol);
}

TEST(Decode, AnErrorNumberOfALaterVersionIsInternal) {
  EXPECT_EQ(DecodeAs<Error>(Header(3).Pair("t", 13).Pair("id", 1).Pair("code", 999).bytes()).code,
            Code::kInternal);
}

TEST(Encode, MakesTextSendable) {
  const auto sent = [](const std::string& text) {
    return DecodeAs<Error>(Encode(Error{.code = Code::kIo, .message = text})).message;
  };
  EXPECT_EQ(sent("plain \xd0\xba\xd0\xbb"), "plain \xd0\xba\xd0\xbb");
  EXPECT_EQ(sent("a-\xff.tfrecord"), "a-\xef\xbf\xbd.tfrecord");
  EXPECT_EQ(sent(std::string(5000, 'x')), std::string(kMaxStringBytes, 'x'));
  // Not cut inside a character.
  std::string long_text(kMaxStringBytes - 1, 'x');
  EXPECT_EQ(sent(long_text + "\xd0\xba"), long_text);
  EXPECT_EQ(sent(std::string(5000, '\xff')).size(), kMaxStringBytes / 3 * 3);
}

constexpr size_t kPiece = 4194304;  // bytes of the sample "chunk_piece"

TEST(CheckChunk, AcceptsWholeRecordsAndPieces) {
  EXPECT_TRUE(CheckChunk(SampleOf<Chunk>("chunk"), 9).ok());
  EXPECT_TRUE(CheckChunk(SampleOf<Chunk>("chunk_piece"), kPiece).ok());
  Chunk first = SampleOf<Chunk>("chunk_piece");
  first.record_offset = 0;
  first.flow_end += kRecordOverheadBytes;
  EXPECT_TRUE(CheckChunk(first, kPiece).ok());
  Chunk empty = SampleOf<Chunk>("chunk");
  empty.sizes = {0, 0};
  empty.flow_end = empty.flow_begin + 32;
  EXPECT_TRUE(CheckChunk(empty, 0).ok());
}

TEST(CheckChunk, SaysWhatIsInconsistent) {
  const auto refused = [](size_t payload_bytes, const std::string& what, auto change,
                          const std::string& sample = "chunk") {
    Chunk chunk = SampleOf<Chunk>(sample);
    change(chunk);
    const Status status = CheckChunk(chunk, payload_bytes);
    EXPECT_EQ(status.code(), Code::kProtocol) << what;
    EXPECT_THAT(status.message(), HasSubstr(what));
  };
  refused(8, "sizes sum up to 9", [](Chunk&) {});
  refused(9, "id is 0", [](Chunk& c) { c.open_id = 0; });
  refused(9, "seq is 0", [](Chunk& c) { c.sequence = 0; });
  refused(9, "stream is 256", [](Chunk& c) { c.stream = 256; });
  refused(0, "0 slots", [](Chunk& c) { c.slots = c.sizes = c.crcs = {}; });
  refused(0, "65537 slots", [](Chunk& c) { c.slots.resize(kMaxChunkRecords + 1); });
  refused(9, "must be equal", [](Chunk& c) { c.crcs.pop_back(); });
  refused(9, "must be equal", [](Chunk& c) { c.sizes.push_back(0); });
  refused(9, "slot 5 comes after slot 5", [](Chunk& c) { c.slots = {5, 5}; });
  refused(9, "slot 4 comes after slot 5", [](Chunk& c) { c.slots = {5, 4}; });
  refused(kMaxChunkPayloadBytes + 1, "more than 4194304",
          [](Chunk& c) { c.sizes = {kMaxChunkPayloadBytes + 1, 0}; });
  // 2^32 in sum: would be 0 in 32 bits.
  refused(0, "sizes sum up to 4294967296", [](Chunk& c) { c.sizes = {0xffffffff, 1}; });
  refused(9, "flow range", [](Chunk& c) { c.flow_end += 1; });
  refused(9, "flow range", [](Chunk& c) { std::swap(c.flow_begin, c.flow_end); });
  refused(9, "flow range", [](Chunk& c) { c.flow_begin = ~uint64_t{0} - 20; });
  refused(9, "offset without total", [](Chunk& c) { c.record_offset = 1; });
  refused(9, "a piece with 2 slots", [](Chunk& c) { c.record_total = 100; });

  const auto piece = [&](const std::string& what, auto change, size_t payload_bytes = kPiece) {
    refused(payload_bytes, what, change, "chunk_piece");
  };
  piece("without bytes", [](Chunk& c) { c.sizes = {0}; }, 0);
  piece("reach behind", [](Chunk& c) { c.record_offset = c.record_total - kPiece + 1; });
  piece("reach behind", [](Chunk& c) { c.record_offset = ~uint64_t{0}; });
  piece("total is", [](Chunk& c) { c.record_total = kMaxRecordBytes + 1; });
  piece("flow range", [](Chunk& c) { c.flow_end += kRecordOverheadBytes; });
  piece("flow range", [](Chunk& c) { c.record_offset = 0; });
}

}  // namespace
}  // namespace emlio::wire
