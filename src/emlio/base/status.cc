// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/status.h"

#include <cerrno>
#include <cstring>

namespace emlio {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kCorrupt:
      return "CORRUPT";
    case Code::kTruncated:
      return "TRUNCATED";
    case Code::kUnsupported:
      return "UNSUPPORTED";
    case Code::kLimitExceeded:
      return "LIMIT_EXCEEDED";
    case Code::kPlanMismatch:
      return "PLAN_MISMATCH";
    case Code::kProtocol:
      return "PROTOCOL";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kTimeout:
      return "TIMEOUT";
    case Code::kCancelled:
      return "CANCELLED";
    case Code::kShardChanged:
      return "SHARD_CHANGED";
    case Code::kIo:
      return "IO";
    case Code::kInternal:
      return "INTERNAL";
  }
  return "INTERNAL";
}

Code CodeFromNumber(int number) {
  if (number < static_cast<int>(Code::kOk) || number > static_cast<int>(Code::kInternal)) {
    return Code::kInternal;
  }
  return static_cast<Code>(number);
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(CodeName(code_)) + ": " + message_;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return {code_, std::string(context) + ": " + message_};
}

Status ErrnoStatus(int error_number, std::string_view what) {
  std::string message = std::string(what) + ": " + std::strerror(error_number);
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return NotFound(std::move(message));
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(std::move(message));
    default:
      return IoError(std::move(message));
  }
}

}  // namespace emlio
