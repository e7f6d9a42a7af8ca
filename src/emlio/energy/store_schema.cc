// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/store_schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/base/file.h"

namespace emlio::energy {
namespace {

using Json = nlohmann::json;

constexpr int64_t kApplicationId = 0x454d4c45;
constexpr int64_t kVersion = 1;
constexpr size_t kMaxJsonBytes = 16U << 20U;

// Migrations: what makes version i + 1 of version i.
constexpr const char* kMigrations[kVersion] = {
    R"(
CREATE TABLE run (
  id TEXT PRIMARY KEY,
  started_wall_ns INTEGER NOT NULL,
  ended_wall_ns INTEGER,
  exit_status INTEGER,
  command TEXT NOT NULL,
  configuration TEXT NOT NULL,
  labels TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE node (
  id INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES run,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  facts TEXT NOT NULL,
  interval_ns INTEGER NOT NULL,
  sampled INTEGER NOT NULL DEFAULT 0,
  late INTEGER NOT NULL DEFAULT 0,
  missed INTEGER NOT NULL DEFAULT 0,
  clock_steps INTEGER NOT NULL DEFAULT 0,
  clock_step_ns INTEGER NOT NULL DEFAULT 0,
  late_p50_ns INTEGER NOT NULL DEFAULT 0,
  late_p99_ns INTEGER NOT NULL DEFAULT 0,
  late_max_ns INTEGER NOT NULL DEFAULT 0,
  cpu_ns INTEGER NOT NULL DEFAULT 0,
  elapsed_ns INTEGER NOT NULL DEFAULT 0,
  start_barrier_ns INTEGER,
  start_barrier_wall_ns INTEGER,
  start_barrier_apart_ns INTEGER,
  stop_barrier_ns INTEGER,
  stop_barrier_wall_ns INTEGER,
  stop_barrier_apart_ns INTEGER,
  ticks_dropped INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX node_run ON node (run_id, id);
CREATE TABLE clock (
  node_id INTEGER NOT NULL REFERENCES node,
  at_ns INTEGER NOT NULL,
  at_wall_ns INTEGER NOT NULL,
  at_apart_ns INTEGER NOT NULL,
  offset_ns INTEGER NOT NULL,
  esterror_ns INTEGER NOT NULL,
  maxerror_ns INTEGER NOT NULL,
  synchronised INTEGER NOT NULL
);
CREATE INDEX clock_node ON clock (node_id);
CREATE TABLE clock_offset (
  node_id INTEGER NOT NULL REFERENCES node,
  peer TEXT NOT NULL,
  at_ns INTEGER NOT NULL,
  at_wall_ns INTEGER NOT NULL,
  at_apart_ns INTEGER NOT NULL,
  offset_ns INTEGER NOT NULL,
  bound_ns INTEGER NOT NULL
);
CREATE INDEX clock_offset_node ON clock_offset (node_id);
CREATE TABLE domain (
  node_id INTEGER NOT NULL REFERENCES node,
  number INTEGER NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  source TEXT NOT NULL,
  quantity TEXT NOT NULL,
  socket INTEGER NOT NULL,
  die INTEGER NOT NULL,
  device TEXT NOT NULL,
  pci TEXT NOT NULL,
  detail TEXT NOT NULL,
  per_unit REAL NOT NULL,
  range_units INTEGER NOT NULL,
  max_watts REAL NOT NULL,
  plausible_watts REAL NOT NULL,
  refresh_ns INTEGER NOT NULL,
  step_joules REAL NOT NULL,
  update_period_ns INTEGER NOT NULL,
  in_total INTEGER NOT NULL,
  outside_total TEXT NOT NULL,
  shared INTEGER NOT NULL,
  virtualised INTEGER NOT NULL,
  filtered INTEGER NOT NULL,
  facts TEXT NOT NULL,
  cause TEXT NOT NULL,
  fix TEXT NOT NULL,
  PRIMARY KEY (node_id, number)
) WITHOUT ROWID;
CREATE TABLE absence (
  node_id INTEGER NOT NULL REFERENCES node,
  source TEXT NOT NULL,
  cause TEXT NOT NULL,
  fix TEXT NOT NULL
);
CREATE INDEX absence_node ON absence (node_id);
CREATE TABLE samples (
  node_id INTEGER NOT NULL REFERENCES node,
  first_ns INTEGER NOT NULL,
  last_ns INTEGER NOT NULL,
  ticks INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (node_id, first_ns)
) WITHOUT ROWID;
CREATE TABLE window (
  id INTEGER PRIMARY KEY,
  node_id INTEGER NOT NULL REFERENCES node,
  key TEXT NOT NULL,
  name TEXT NOT NULL,
  stage TEXT NOT NULL,
  epoch INTEGER,
  rank INTEGER,
  begin_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  begin_wall_ns INTEGER NOT NULL,
  allow_gaps INTEGER NOT NULL,
  state TEXT NOT NULL,
  joules REAL,
  uncertainty_joules REAL,
  domains TEXT NOT NULL,
  missing TEXT NOT NULL,
  without TEXT NOT NULL,
  cpu_seconds REAL,
  gpu_seconds REAL,
  bytes_read INTEGER,
  bytes_sent INTEGER,
  bytes_delivered INTEGER,
  records_delivered INTEGER,
  labels TEXT NOT NULL
);
CREATE INDEX window_node ON window (node_id, begin_ns);
CREATE TABLE window_energy (
  window_id INTEGER NOT NULL REFERENCES window,
  number INTEGER NOT NULL,
  state TEXT NOT NULL,
  joules REAL,
  uncertainty_joules REAL,
  void_ns INTEGER NOT NULL,
  wraps INTEGER NOT NULL,
  resets INTEGER NOT NULL,
  gaps INTEGER NOT NULL,
  stalls INTEGER NOT NULL,
  ambiguous INTEGER NOT NULL,
  cause TEXT NOT NULL,
  fix TEXT NOT NULL,
  PRIMARY KEY (window_id, number)
) WITHOUT ROWID;
CREATE TABLE sink_report (
  node_id INTEGER NOT NULL REFERENCES node,
  sink TEXT NOT NULL,
  target TEXT NOT NULL,
  points_sent INTEGER NOT NULL,
  points_refused INTEGER NOT NULL,
  points_dropped INTEGER NOT NULL,
  retries INTEGER NOT NULL,
  last_error TEXT NOT NULL,
  PRIMARY KEY (node_id, sink, target)
) WITHOUT ROWID;
CREATE TABLE note (
  run_id TEXT NOT NULL REFERENCES run,
  wall_ns INTEGER NOT NULL,
  node TEXT NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX note_run ON note (run_id, wall_ns);
)"};

struct Identity {
  int64_t application = 0;
  int64_t version = 0;
  int64_t tables = 0;

  bool empty() const { return application == 0 && version == 0 && tables == 0; }
};

// To be called in a transaction: another process may be making the store at this moment.
Result<Identity> IdentityOf(Sqlite& database) {
  Identity identity;
  EMLIO_ASSIGN_OR_RETURN(identity.application, database.QueryInt("PRAGMA application_id"));
  EMLIO_ASSIGN_OR_RETURN(identity.version, database.QueryInt("PRAGMA user_version"));
  EMLIO_ASSIGN_OR_RETURN(identity.tables, database.QueryInt("SELECT count(*) FROM sqlite_master"));
  return identity;
}

Result<Identity> ReadIdentity(Sqlite& database) {
  EMLIO_RETURN_IF_ERROR(database.Execute("BEGIN"));
  auto identity = IdentityOf(database);
  (void)database.Execute("ROLLBACK");  // nothing was written
  return identity;
}

// Whether the file is a store that this version knows, or can become one.
Status CheckIdentity(const std::string& path, const Identity& identity) {
  if (identity.application != kApplicationId) {
    return InvalidArgument(fmt::format(
        "{} is an SQLite database of something else: name another file for the store", path));
  }
  if (identity.version > kVersion) {
    return Unsupported(fmt::format(
        "{} was made by a later version of EMLIO (its version is {}, {} is known here): "
        "update EMLIO",
        path, identity.version, kVersion));
  }
  return identity.version >= 1 ? OkStatus() : Corrupt(path + ": a store without a version");
}

Status Migrate(const std::string& path, Sqlite& database) {
  // Others may do the same at this moment: what holds is what is there under the lock.
  EMLIO_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  const auto migrate = [&]() -> Status {
    EMLIO_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(database));
    if (!identity.empty()) EMLIO_RETURN_IF_ERROR(CheckIdentity(path, identity));
    for (int64_t version = identity.version; version < kVersion; ++version) {
      EMLIO_RETURN_IF_ERROR(database.Execute(kMigrations[version]));
    }
    return database.Execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                        kApplicationId, kVersion));
  };
  Status migrated = migrate();
  if (migrated.ok()) migrated = database.Execute("COMMIT");
  if (!migrated.ok()) (void)database.Execute("ROLLBACK");
  return migrated;
}

Status NoStore(const std::string& path, const Status& status) {
  if (status.code() != Code::kInvalidArgument) return status;
  return InvalidArgument(path + " is no store of energy runs, but a file of something else");
}

// Makes a store of an empty database, and of one of an earlier version one of this.
Status Prepare(const std::string& path, Sqlite& database) {
  const auto identity = ReadIdentity(database);
  if (!identity.ok()) return NoStore(path, identity.status());
  if (!identity->empty()) EMLIO_RETURN_IF_ERROR(CheckIdentity(path, *identity));
  // Of the file, not of this connection: all later ones use it too.
  EMLIO_ASSIGN_OR_RETURN(Statement journal, database.Prepare("PRAGMA journal_mode = WAL"));
  EMLIO_ASSIGN_OR_RETURN(const bool row, journal.Next());
  if (!row || journal.Text(0) != "wal") {
    return Unsupported(path +
                       ": this file system cannot share memory between processes: put the store on "
                       "a local disk");
  }
  journal.Reset();
  if (identity->version < kVersion) EMLIO_RETURN_IF_ERROR(Migrate(path, database));
  return database.Execute("PRAGMA synchronous = NORMAL");
}

}  // namespace

Result<Sqlite> OpenStoreForWriting(const std::string& path, int64_t busy_timeout_ns) {
  if (const size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0) {
    EMLIO_RETURN_IF_ERROR(MakeDirectories(path.substr(0, slash)));
  }
  // SQLite would not say why it cannot make a file.
  const int made = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (made < 0 && errno != EEXIST) return ErrnoStatus(errno, "cannot make the store " + path);
  if (made >= 0) close(made);
  EMLIO_ASSIGN_OR_RETURN(Sqlite database, Sqlite::Open(path, Sqlite::Mode::kWrite));
  database.SetBusyTimeout(busy_timeout_ns);
  // Where two make a store at once, SQLite lets one of them fail instead of wait.
  const int64_t deadline_ns = SystemClock().NowNs() + busy_timeout_ns;
  Status prepared = Prepare(path, database);
  while (prepared.code() == Code::kTimeout && SystemClock().NowNs() < deadline_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    prepared = Prepare(path, database);
  }
  if (!prepared.ok()) return prepared;
  return database;
}

Result<Sqlite> OpenStoreForReading(const std::string& path) {
  // SQLite takes an empty file for an empty database, and makes nothing of a directory.
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(facts.st_mode)) return InvalidArgument(path + " is not a file");
  EMLIO_ASSIGN_OR_RETURN(Sqlite database, Sqlite::Open(path, Sqlite::Mode::kRead));
  database.SetBusyTimeout(kNsPerSecond);
  auto identity = ReadIdentity(database);
  if (!identity.ok() &&
      (identity.status().code() == Code::kPermissionDenied ||
       identity.status().code() == Code::kIo || identity.status().code() == Code::kNotFound)) {
    // What SQLite shares between processes lies beside the file. Where it cannot be made, nobody
    // writes, unless it is there.
    if (stat((path + "-wal").c_str(), &facts) == 0) return identity.status();
    EMLIO_ASSIGN_OR_RETURN(database, Sqlite::Open(path, Sqlite::Mode::kReadImmutable));
    identity = ReadIdentity(database);
  }
  if (!identity.ok()) return NoStore(path, identity.status());
  if (identity->empty()) {
    return InvalidArgument(path + " is empty: no run was written into it");
  }
  EMLIO_RETURN_IF_ERROR(CheckIdentity(path, *identity));
  return database;
}

std::string NamesToJson(const std::vector<std::string>& names) {
  return Json(names).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> NamesFromJson(std::string_view json) {
  std::vector<std::string> names;
  if (json.size() > kMaxJsonBytes) return names;
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_array()) return names;
  for (const Json& name : parsed) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

std::string LabelsToJson(const std::map<std::string, std::string>& labels) {
  Json object = Json::object();
  for (const auto& [key, value] : labels) object[key] = value;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::map<std::string, std::string> LabelsFromJson(std::string_view json) {
  std::map<std::string, std::string> labels;
  if (json.size() > kMaxJsonBytes) return labels;
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_object()) return labels;
  for (const auto& [key, value] : parsed.items()) {
    if (value.is_string()) labels[key] = value.get<std::string>();
  }
  return labels;
}

Status CheckJsonObject(std::string_view what, std::string_view json) {
  if (json.size() > kMaxJsonBytes) {
    return LimitExceeded(
        fmt::format("{} has {} bytes of JSON, of {} at most", what, json.size(), kMaxJsonBytes));
  }
  if (Json::parse(json, nullptr, false).is_object()) return OkStatus();
  return InvalidArgument(fmt::format("{} is not a JSON object", what));
}

}  // namespace emlio::energy
