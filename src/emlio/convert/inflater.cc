// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/convert/inflater.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace emlio::convert {
namespace {

constexpr size_t kInputBytes = size_t{256} << 10;

// What inflateInit2 calls window bits: the largest window, and which wrapper is expected.
int WindowBits(Compression compression) {
  return compression == Compression::kGzip ? 16 + MAX_WBITS : MAX_WBITS;
}

}  // namespace

// zlib keeps a pointer to it: it must not move.
struct Inflater::Stream : z_stream {
  Stream() : z_stream{} {}
};

std::string_view CompressionName(Compression compression) {
  return compression == Compression::kGzip ? "gzip" : "zlib";
}

Inflater::Inflater(const RandomAccessFile* file, Compression compression)
    : file_(*file),
      compression_(compression),
      stream_(std::make_unique<Stream>()),
      input_(kInputBytes) {
  stream_->next_in = input_.data();
  if (inflateInit2(stream_.get(), WindowBits(compression)) != Z_OK) {
    failure_ = InternalError("zlib cannot begin: out of memory");
  }
}

Inflater::~Inflater() { inflateEnd(stream_.get()); }

uint64_t Inflater::file_offset() const { return next_read_ - stream_->avail_in; }

Status Inflater::Damage(Code code, std::string_view what) const {
  return {code, fmt::format("damaged {} data at byte {} of the file: {}",
                            CompressionName(compression_), file_offset(), what)};
}

Status Inflater::FillInput(size_t least) {
  while (stream_->avail_in < least && !at_file_end_) {
    std::memmove(input_.data(), stream_->next_in, stream_->avail_in);
    stream_->next_in = input_.data();
    const size_t room = input_.size() - stream_->avail_in;
    EMLIO_ASSIGN_OR_RETURN(const size_t read,
                           file_.ReadAt(next_read_, room, input_.data() + stream_->avail_in));
    next_read_ += read;
    stream_->avail_in += static_cast<uInt>(read);
    at_file_end_ = read < room;
  }
  return OkStatus();
}

Status Inflater::EndMember() {
  EMLIO_RETURN_IF_ERROR(FillInput(2));
  if (stream_->avail_in == 0) {
    at_end_ = true;
    return OkStatus();
  }
  const bool is_member = compression_ == Compression::kGzip && stream_->avail_in >= 2 &&
                         stream_->next_in[0] == 0x1f && stream_->next_in[1] == 0x8b;
  if (!is_member) return Damage(Code::kCorrupt, "bytes that do not belong to it follow its end");
  inflateReset(stream_.get());
  return OkStatus();
}

Status Inflater::Advance(std::span<uint8_t> to, size_t* done) {
  while (*done < to.size() && !at_end_) {
    EMLIO_RETURN_IF_ERROR(FillInput(1));
    const auto room =
        static_cast<uInt>(std::min<size_t>(to.size() - *done, std::numeric_limits<uInt>::max()));
    stream_->next_out = to.data() + *done;
    stream_->avail_out = room;
    const int result = inflate(stream_.get(), Z_NO_FLUSH);
    *done += room - stream_->avail_out;
    switch (result) {
      case Z_OK:
        break;
      case Z_STREAM_END:
        EMLIO_RETURN_IF_ERROR(EndMember());
        break;
      case Z_BUF_ERROR:  // nothing to do: there was room, so it was input that lacked
        return Damage(Code::kTruncated, "it ends here, inside; the file was cut or never finished");
      case Z_MEM_ERROR:
        return InternalError("zlib is out of memory");
      default:
        return Damage(Code::kCorrupt,
                      stream_->msg != nullptr ? stream_->msg : "it needs a preset dictionary");
    }
  }
  return OkStatus();
}

Result<size_t> Inflater::Read(std::span<uint8_t> to) {
  size_t done = 0;
  if (failure_.ok()) failure_ = Advance(to, &done);
  // What was good is handed out first; the error comes with the next call.
  if (!failure_.ok() && done == 0) return failure_;
  return done;
}

}  // namespace emlio::convert
