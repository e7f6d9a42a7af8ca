// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "emlio/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

// As much of SQLite as the store needs, with our errors. One thread at a time.
namespace emlio::energy {

struct Blob {
  std::string_view bytes;
};

// A prepared statement. What it reads is valid until its next Next or Run.
class Statement {
 public:
  Statement() = default;

  // Binds all parameters in their order, runs to the end and is ready for the next time.
  template <typename... Values>
  Status Run(const Values&... values) {
    EMLIO_RETURN_IF_ERROR(Start(values...));
    return Finish();
  }
  // Binds all parameters; Next then gives the rows. Texts and blobs are copied.
  template <typename... Values>
  Status Start(const Values&... values) {
    Reset();
    int place = 0;
    bool fits = true;
    ((fits = Bind(++place, values) && fits), ...);
    return fits ? OkStatus() : Error();
  }
  // Whether there is a row. After the last one nothing holds the file.
  Result<bool> Next();
  void Reset();

  bool IsNull(int column) const;
  int64_t Int(int column) const;
  double Double(int column) const;
  std::string_view Text(int column) const;
  std::string_view Bytes(int column) const;
  std::optional<int64_t> OptionalInt(int column) const;
  std::optional<double> OptionalDouble(int column) const;

 private:
  friend class Sqlite;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Status Finish();
  Status Error() const;
  bool Bind(int place, int64_t value);
  bool Bind(int place, uint32_t value) { return Bind(place, static_cast<int64_t>(value)); }
  bool Bind(int place, uint64_t value) { return Bind(place, static_cast<int64_t>(value)); }
  bool Bind(int place, int value) { return Bind(place, static_cast<int64_t>(value)); }
  bool Bind(int place, bool value) { return Bind(place, static_cast<int64_t>(value)); }
  bool Bind(int place, double value);
  bool Bind(int place, std::string_view value);
  bool Bind(int place, const std::string& value) { return Bind(place, std::string_view(value)); }
  bool Bind(int place, const char* value) { return Bind(place, std::string_view(value)); }
  bool Bind(int place, const Blob& value);
  bool BindNull(int place);
  template <typename Value>
  bool Bind(int place, const std::optional<Value>& value) {
    return value ? Bind(place, *value) : BindNull(place);
  }

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Sqlite {
 public:
  enum class Mode { kCreate, kWrite, kRead, kReadImmutable };
  static Result<Sqlite> Open(const std::string& path, Mode mode);

  void SetBusyTimeout(int64_t timeout_ns);
  // All statements of a text; rows are thrown away.
  Status Execute(const std::string& sql);
  Result<Statement> Prepare(std::string_view sql);
  // The first column of the first row; kNotFound without a row.
  Result<int64_t> QueryInt(std::string_view sql);
  int64_t LastInsertId() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace emlio::energy
