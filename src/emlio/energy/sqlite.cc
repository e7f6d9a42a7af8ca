// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "emlio/base/clock.h"

namespace emlio::energy {
namespace {

Status ErrorOf(sqlite3* database, std::string_view path) {
  const int code = sqlite3_extended_errcode(database);
  const int system = sqlite3_system_errno(database);
  std::string message = fmt::format("{}: {}", path, sqlite3_errmsg(database));
  if (system != 0) message += fmt::format(" ({})", std::strerror(system));
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return InvalidArgument(std::move(message));
    case SQLITE_CORRUPT:
      return Corrupt(std::move(message));
    case SQLITE_FULL:
      return IoError(message + ": make room, or write the store elsewhere");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return TimeoutError(message + ": another process writes into it for long");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return PermissionDenied(std::move(message));
    case SQLITE_CANTOPEN:
      if (system == EACCES || system == EPERM || system == EROFS) {
        return PermissionDenied(std::move(message));
      }
      return system == ENOENT ? NotFound(std::move(message)) : IoError(std::move(message));
    case SQLITE_TOOBIG:
      return LimitExceeded(std::move(message));
    case SQLITE_CONSTRAINT:
      return InvalidArgument(std::move(message));
    default:
      return IoError(std::move(message));
  }
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Sqlite::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Result<Sqlite> Sqlite::Open(const std::string& path, Mode mode) {
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  std::string name = path;
  switch (mode) {
    case Mode::kCreate:
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      break;
    case Mode::kWrite:
      flags |= SQLITE_OPEN_READWRITE;
      break;
    case Mode::kRead:
      flags |= SQLITE_OPEN_READONLY;
      break;
    case Mode::kReadImmutable:
      flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
      name = "file:";
      for (const char byte : path) {
        if (byte == '%' || byte == '?' || byte == '#') {
          name += fmt::format("%{:02x}", static_cast<unsigned char>(byte));
        } else {
          name += byte;
        }
      }
      name += "?immutable=1";
      break;
  }
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &opened, flags, nullptr);
  Sqlite database;
  database.path_ = path;
  database.database_.reset(opened);
  if (opened == nullptr) return IoError(path + ": no memory for a database");
  if (code != SQLITE_OK) return ErrorOf(opened, path);
  return database;
}

void Sqlite::SetBusyTimeout(int64_t timeout_ns) {
  const int64_t ms = std::clamp<int64_t>(timeout_ns / kNsPerMs, 0, std::numeric_limits<int>::max());
  sqlite3_busy_timeout(database_.get(), static_cast<int>(ms));
}

Status Sqlite::Execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    return OkStatus();
  }
  return ErrorOf(database_.get(), path_);
}

Result<Statement> Sqlite::Prepare(std::string_view sql) {
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &prepared, nullptr) != SQLITE_OK) {
    return ErrorOf(database_.get(), path_);
  }
  Statement statement;
  statement.statement_.reset(prepared);
  return statement;
}

Result<int64_t> Sqlite::QueryInt(std::string_view sql) {
  EMLIO_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  EMLIO_ASSIGN_OR_RETURN(const bool row, statement.Next());
  if (!row) return NotFound(fmt::format("{}: nothing for {}", path_, sql));
  return statement.Int(0);
}

int64_t Sqlite::LastInsertId() const { return sqlite3_last_insert_rowid(database_.get()); }

Status Statement::Error() const {
  sqlite3* const database = sqlite3_db_handle(statement_.get());
  const char* const path = sqlite3_db_filename(database, "main");
  return ErrorOf(database, path == nullptr ? "" : path);
}

Result<bool> Statement::Next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) {
    const Status error = Error();
    Reset();
    return error;
  }
  Reset();
  return false;
}

Status Statement::Finish() {
  while (true) {
    EMLIO_ASSIGN_OR_RETURN(const bool row, Next());
    if (!row) return OkStatus();
  }
}

void Statement::Reset() { sqlite3_reset(statement_.get()); }

bool Statement::Bind(int place, int64_t value) {
  return sqlite3_bind_int64(statement_.get(), place, value) == SQLITE_OK;
}
bool Statement::Bind(int place, double value) {
  return sqlite3_bind_double(statement_.get(), place, value) == SQLITE_OK;
}
bool Statement::Bind(int place, std::string_view value) {
  return sqlite3_bind_text64(statement_.get(), place, value.data() == nullptr ? "" : value.data(),
                             value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) == SQLITE_OK;
}
bool Statement::Bind(int place, const Blob& value) {
  return sqlite3_bind_blob64(statement_.get(), place,
                             value.bytes.data() == nullptr ? "" : value.bytes.data(),
                             value.bytes.size(), SQLITE_TRANSIENT) == SQLITE_OK;
}
bool Statement::BindNull(int place) {
  return sqlite3_bind_null(statement_.get(), place) == SQLITE_OK;
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}
int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }
double Statement::Double(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}
std::string_view Statement::Text(int column) const {
  const unsigned char* const text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}
std::string_view Statement::Bytes(int column) const {
  const void* const bytes = sqlite3_column_blob(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}
std::optional<int64_t> Statement::OptionalInt(int column) const {
  return IsNull(column) ? std::nullopt : std::optional(Int(column));
}
std::optional<double> Statement::OptionalDouble(int column) const {
  return IsNull(column) ? std::nullopt : std::optional(Double(column));
}

}  // namespace emlio::energy
