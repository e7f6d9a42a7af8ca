// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace emlio {

// The closed list of error codes, the same in C++, on the wire (wire/PROTOCOL.md, "Errors") and in
// Python (one exception class each). The numbers are part of the wire format: never reuse one.
enum class Code : int {
  kOk = 0,
  kInvalidArgument = 1,   // an option or a request that can never work
  kNotFound = 2,          // no such data set, shard, file or host name
  kPermissionDenied = 3,  // outside the configured roots, or refused by the system
  kCorrupt = 4,           // a checksum or a structure does not hold
  kTruncated = 5,         // the data end before they should
  kUnsupported = 6,       // recognised, but not handled (compressed shard, unknown version)
  kLimitExceeded = 7,     // larger than a stated limit
  kPlanMismatch = 8,      // ranks or sources disagree about what is to be read
  kProtocol = 9,          // the peer sent something that PROTOCOL.md does not allow
  kUnavailable = 10,      // the peer cannot be reached, or the connection was lost
  kTimeout = 11,          // a deadline passed
  kCancelled = 12,        // stopped by the user, or closed
  kShardChanged = 13,     // a shard is not what its index says any more
  kIo = 14,               // the operating system reported an error on a file
  kInternal = 15,         // a fault of EMLIO's own
};

// The name of a code in the form used by messages and by --json: "CORRUPT", "PLAN_MISMATCH", ...
std::string_view CodeName(Code code);
// The code with that number; kInternal for a number that this version does not know.
Code CodeFromNumber(int number);

// The outcome of something that can fail. Cheap to copy when ok. A message says what failed, where
// (data set, shard, record, offset, peer) and what to do about it.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // "CORRUPT: shard a.tfrecord, ..."; "OK" when ok.
  std::string ToString() const;
  // The same code with "context: " before the message; ok stays ok.
  Status WithContext(std::string_view context) const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status OkStatus() { return {}; }
inline Status InvalidArgument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
inline Status NotFound(std::string m) { return {Code::kNotFound, std::move(m)}; }
inline Status PermissionDenied(std::string m) { return {Code::kPermissionDenied, std::move(m)}; }
inline Status Corrupt(std::string m) { return {Code::kCorrupt, std::move(m)}; }
inline Status Truncated(std::string m) { return {Code::kTruncated, std::move(m)}; }
inline Status Unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
inline Status LimitExceeded(std::string m) { return {Code::kLimitExceeded, std::move(m)}; }
inline Status PlanMismatch(std::string m) { return {Code::kPlanMismatch, std::move(m)}; }
inline Status ProtocolError(std::string m) { return {Code::kProtocol, std::move(m)}; }
inline Status Unavailable(std::string m) { return {Code::kUnavailable, std::move(m)}; }
inline Status TimeoutError(std::string m) { return {Code::kTimeout, std::move(m)}; }
inline Status Cancelled(std::string m) { return {Code::kCancelled, std::move(m)}; }
inline Status ShardChanged(std::string m) { return {Code::kShardChanged, std::move(m)}; }
inline Status IoError(std::string m) { return {Code::kIo, std::move(m)}; }
inline Status InternalError(std::string m) { return {Code::kInternal, std::move(m)}; }
// The Status for an errno value: ENOENT is kNotFound, EACCES and EPERM are kPermissionDenied, the
// rest kIo. The message reads "what: <strerror>".
Status ErrnoStatus(int error_number, std::string_view what);

// A value, or the reason why there is none. REQUIRES: a Result is never built from an ok Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {
    if (std::get<0>(state_).ok()) {
      std::get<0>(state_) = InternalError("a Result was built from an ok Status");
    }
  }

  bool ok() const { return state_.index() == 1; }
  Status status() const { return ok() ? OkStatus() : std::get<0>(state_); }

  // REQUIRES: ok().
  T& operator*() & { return std::get<1>(state_); }
  const T& operator*() const& { return std::get<1>(state_); }
  T&& operator*() && { return std::move(std::get<1>(state_)); }
  T* operator->() { return &std::get<1>(state_); }
  const T* operator->() const { return &std::get<1>(state_); }

 private:
  std::variant<Status, T> state_;
};

}  // namespace emlio

#define EMLIO_STATUS_CONCAT_INNER(a, b) a##b
#define EMLIO_STATUS_CONCAT(a, b) EMLIO_STATUS_CONCAT_INNER(a, b)

// EMLIO_RETURN_IF_ERROR(DoIt());  returns the status from the calling function unless it is ok.
#define EMLIO_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                     \
    if (::emlio::Status emlio_status_ = (expr); !emlio_status_.ok()) return emlio_status_; \
  } while (false)

// EMLIO_ASSIGN_OR_RETURN(auto file, OpenFile(path));
#define EMLIO_ASSIGN_OR_RETURN(lhs, expr) \
  EMLIO_ASSIGN_OR_RETURN_IMPL(EMLIO_STATUS_CONCAT(emlio_result_, __LINE__), lhs, expr)
#define EMLIO_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                \
  if (!result.ok()) return result.status();            \
  lhs = *std::move(result)
