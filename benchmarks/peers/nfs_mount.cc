// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
//
// nfs_mount URL MOUNTPOINT CONNECTIONS COPIES [FUSE OPTIONS]
//
// A read-only mount of an NFSv4 export (libnfs under FUSE), for kernels without an NFS client. It
// costs the round trips that the kernel's client would: an OPEN for every open and READs of what
// the kernel asks for, ahead too. Attributes come with directory listings and are believed for a
// minute, as the kernel does; CLOSE keeps nobody waiting. libnfs carries one request at a time over
// a connection, so CONNECTIONS is how many requests may be on their way.
//
// MOUNTPOINT/0, /1, ... are the export, COPIES times. The kernel takes them for different files:
// what is read again under another name comes from the server again, as if there were that much
// more. (Hard links on the server would not do: libnfs loses count when a client opens a file
// twice, and it cannot tell that two names are one file.)
//
// URL is that of libnfs: nfs://HOST/EXPORT?version=4&nfsport=PORT.
#define FUSE_USE_VERSION 35
#include <fcntl.h>
#include <fuse.h>
#include <nfsc/libnfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr double kAttributesAreGoodForS = 60;
constexpr auto kLeaseRenewalInterval = std::chrono::seconds(20);  // of the usual lease: 90 s
constexpr unsigned kMaxRequestsOfKernel = 256;
constexpr unsigned kMaxReadAheadBytes = 16U << 20;
constexpr int kMaxConnections = 1024;

// One client of the server. Used by one thread at a time: whoever holds its Lease.
class Connection {
 public:
  // Every connection is an NFSv4 client of its own: two clients of one name would end each other.
  static std::unique_ptr<Connection> Make(const char* url_text, int number) {
    auto connection = std::unique_ptr<Connection>(new Connection);
    nfs_context* nfs = connection->nfs_;
    if (nfs == nullptr) {
      std::fprintf(stderr, "nfs_mount: out of memory\n");
      return nullptr;
    }
    const std::string name = "emlio-" + std::to_string(getpid()) + "-" + std::to_string(number);
    nfs4_set_client_name(nfs, name.c_str());
    char verifier[9];  // of 8 bytes
    std::snprintf(verifier, sizeof verifier, "%04x%04x", getpid() & 0xffff, number & 0xffff);
    nfs4_set_verifier(nfs, verifier);
    nfs_url* url = nfs_parse_url_dir(nfs, url_text);
    const bool mounted = url != nullptr && nfs_mount(nfs, url->server, url->path) == 0;
    if (!mounted) std::fprintf(stderr, "nfs_mount: %s: %s\n", url_text, nfs_get_error(nfs));
    if (url != nullptr) nfs_destroy_url(url);
    return mounted ? std::move(connection) : nullptr;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (nfs_ != nullptr) nfs_destroy_context(nfs_);
  }

  nfs_context* nfs() const { return nfs_; }

  // Opens a file; 0 or a negative errno. To the server, all opens of a file by one client are the
  // same, whatever name they go by, so they share a handle; later ones ask for attributes, at the
  // price of an OPEN.
  int Open(const std::string& path, nfsfh** handle) {
    if (const auto found = open_.find(path); found != open_.end()) {
      nfs_stat_64 ignored;
      if (const int error = nfs_fstat64(nfs_, found->second.handle, &ignored); error < 0) {
        return error;
      }
      ++found->second.users;
      *handle = found->second.handle;
      return 0;
    }
    if (const int error = nfs_open(nfs_, path.c_str(), O_RDONLY, handle); error < 0) {
      return error;
    }
    open_.emplace(path, OpenState{*handle, 1});
    return 0;
  }

  void Close(const std::string& path) {
    const auto found = open_.find(path);
    if (found == open_.end() || --found->second.users > 0) return;
    nfs_close(nfs_, found->second.handle);
    open_.erase(found);
  }

 private:
  struct OpenState {
    nfsfh* handle;
    int users;
  };

  Connection() : nfs_(nfs_init_context()) {}

  nfs_context* nfs_;
  std::unordered_map<std::string, OpenState> open_;  // by path
};

// Lends connections.
class Pool {
 public:
  void Add(std::unique_ptr<Connection> connection) {
    connections_.push_back(std::move(connection));
    free_.push_back(size() - 1);
  }

  int size() const { return static_cast<int>(connections_.size()); }

  // Waits for a connection: `favourite` where that is free, else the one used last, whose
  // congestion window is the widest.
  int TakeAny(int favourite) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !free_.empty(); });
    auto chosen = std::find(free_.begin(), free_.end(), favourite);
    if (chosen == free_.end()) chosen = std::prev(free_.end());
    const int number = *chosen;
    free_.erase(chosen);
    return number;
  }

  // Waits for one certain connection.
  void Take(int number) {
    std::unique_lock lock(mutex_);
    const auto find = [&] { return std::find(free_.begin(), free_.end(), number); };
    changed_.wait(lock, [&] { return find() != free_.end(); });
    free_.erase(find());
  }

  void GiveBack(int number) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(number);
    }
    changed_.notify_all();
  }

  Connection& at(int number) { return *connections_[static_cast<size_t>(number)]; }

 private:
  std::vector<std::unique_ptr<Connection>> connections_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> free_;  // guarded by mutex_; the one given back last stands at the end
};

Pool& pool() {
  static Pool pool;
  return pool;
}

// A connection for as long as the object lives.
class Lease {
 public:
  static Lease Any(int favourite = -1) { return Lease(pool().TakeAny(favourite)); }
  static Lease Of(int number) {
    pool().Take(number);
    return Lease(number);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { pool().GiveBack(number_); }

  int number() const { return number_; }
  Connection* operator->() const { return &pool().at(number_); }

 private:
  explicit Lease(int number) : number_(number) {}
  int number_;
};

// What is known of files by their paths.
class Attributes {
 public:
  std::optional<struct stat> Find(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(path);
    if (found == known_.end() || Clock::now() - found->second.since > kGoodFor) return {};
    return found->second.attributes;
  }

  void Store(const std::string& path, const struct stat& attributes) {
    const std::lock_guard lock(mutex_);
    known_[path] = {attributes, Clock::now()};
  }

  // A file that can be opened, for renewing leases.
  void SetOpened(const std::string& path) {
    const std::lock_guard lock(mutex_);
    opened_ = path;
  }
  std::string opened() {
    const std::lock_guard lock(mutex_);
    return opened_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::duration<double> kGoodFor{kAttributesAreGoodForS};
  struct Entry {
    struct stat attributes;
    Clock::time_point since;
  };

  std::mutex mutex_;
  std::unordered_map<std::string, Entry> known_;
  std::string opened_;
};

Attributes& attributes() {
  static Attributes attributes;
  return attributes;
}

// A file opened by an application: on one connection first, on others as reads overlap.
struct File {
  std::string path;  // on the server
  uint64_t size_bytes;
  int first_connection;
  std::vector<nfsfh*> handles;  // by connection; each touched by the holder of its connection only
};

int& copies() {
  static int copies = 1;
  return copies;
}

// The path on the server of what lies below MOUNTPOINT/0 and so on; nothing for MOUNTPOINT itself
// and for what is not there.
std::optional<std::string> ServerPath(std::string_view path) {
  int copy = 0;
  const char* const end = path.data() + path.size();
  const auto [rest, error] = std::from_chars(path.data() + 1, end, copy);
  if (error != std::errc() || copy < 0 || copy >= copies()) return {};
  if (rest == end) return "/";
  if (*rest != '/') return {};
  return std::string(rest, end);
}

struct stat MakeStat(uint64_t inode, mode_t mode, uint64_t size_bytes, int64_t modified_s) {
  struct stat made = {};
  made.st_ino = inode;
  made.st_mode = mode;
  made.st_nlink = 1;
  made.st_size = static_cast<off_t>(size_bytes);
  made.st_blksize = 1 << 20;
  made.st_blocks = static_cast<blkcnt_t>((size_bytes + 511) / 512);
  made.st_mtime = static_cast<time_t>(modified_s);
  return made;
}

// Of a file on the server.
int AttributesOf(const std::string& path, struct stat* result) {
  if (const auto known = attributes().Find(path)) {
    *result = *known;
    return 0;
  }
  nfs_stat_64 found;
  if (const int error = nfs_stat64(Lease::Any()->nfs(), path.c_str(), &found); error < 0)
    return error;
  *result = MakeStat(found.nfs_ino, static_cast<mode_t>(found.nfs_mode), found.nfs_size,
                     static_cast<int64_t>(found.nfs_mtime));
  attributes().Store(path, *result);
  return 0;
}

int GetAttributes(const char* path, struct stat* result, fuse_file_info* /*file*/) {
  if (std::string_view(path) == "/") {
    *result = MakeStat(1, S_IFDIR | 0755, 0, 0);
    return 0;
  }
  const auto server_path = ServerPath(path);
  return server_path ? AttributesOf(*server_path, result) : -ENOENT;
}

int ListDirectory(const char* path, void* buffer, fuse_fill_dir_t add, off_t /*offset*/,
                  fuse_file_info* /*file*/, fuse_readdir_flags /*flags*/) {
  const auto server_path = ServerPath(path);
  if (!server_path) {
    for (int i = 0; i < copies(); ++i) {
      add(buffer, std::to_string(i).c_str(), nullptr, 0, fuse_fill_dir_flags{});
    }
    return 0;
  }
  const Lease lease = Lease::Any();
  nfsdir* directory = nullptr;
  if (const int error = nfs_opendir(lease->nfs(), server_path->c_str(), &directory); error < 0)
    return error;
  const std::string parent = *server_path == "/" ? "" : *server_path;
  while (const nfsdirent* entry = nfs_readdir(lease->nfs(), directory)) {
    const std::string_view name = entry->name;
    if (name == "." || name == "..") {
      add(buffer, entry->name, nullptr, 0, fuse_fill_dir_flags{});
      continue;
    }
    constexpr uint32_t kNfsDirectory = 2;
    const mode_t kind = entry->type == kNfsDirectory ? S_IFDIR : S_IFREG;
    const struct stat found = MakeStat(entry->inode, kind | (entry->mode & 07777U), entry->size,
                                       static_cast<int64_t>(entry->mtime.tv_sec));
    attributes().Store(parent + "/" + entry->name, found);
    add(buffer, entry->name, &found, 0, FUSE_FILL_DIR_PLUS);
  }
  nfs_closedir(lease->nfs(), directory);
  return 0;
}

int Open(const char* path, fuse_file_info* info) {
  if ((info->flags & O_ACCMODE) != O_RDONLY) return -EROFS;
  const auto server_path = ServerPath(path);
  if (!server_path) return -ENOENT;
  struct stat found;
  if (const int error = AttributesOf(*server_path, &found); error < 0) return error;
  const Lease lease = Lease::Any();
  auto file = std::make_unique<File>(
      File{.path = *server_path,
           .size_bytes = static_cast<uint64_t>(found.st_size),
           .first_connection = lease.number(),
           .handles = std::vector<nfsfh*>(static_cast<size_t>(pool().size()))});
  nfsfh** handle = &file->handles[static_cast<size_t>(lease.number())];
  if (const int error = lease->Open(file->path, handle); error < 0) return error;
  attributes().SetOpened(file->path);
  info->fh = reinterpret_cast<uint64_t>(file.release());
  info->keep_cache = 1;
  return 0;
}

int Read(const char* /*path*/, char* buffer, size_t wanted, off_t offset, fuse_file_info* info) {
  auto* file = reinterpret_cast<File*>(info->fh);
  const uint64_t begin = static_cast<uint64_t>(offset);
  if (begin >= file->size_bytes) return 0;
  wanted = std::min<uint64_t>(wanted, file->size_bytes - begin);  // the end is known, not asked for
  const Lease lease = Lease::Any(file->first_connection);
  nfsfh*& handle = file->handles[static_cast<size_t>(lease.number())];
  if (handle == nullptr) {
    if (const int error = lease->Open(file->path, &handle); error < 0) return error;
  }
  size_t done = 0;
  while (done < wanted) {
    const int count = nfs_pread(lease->nfs(), handle, begin + done, wanted - done, buffer + done);
    if (count < 0) return count;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<int>(done);
}

int Release(const char* /*path*/, fuse_file_info* info) {
  const std::unique_ptr<File> file(reinterpret_cast<File*>(info->fh));
  for (int i = 0; i < pool().size(); ++i) {
    if (file->handles[static_cast<size_t>(i)] != nullptr) Lease::Of(i)->Close(file->path);
  }
  return 0;
}

// libnfs does not renew the leases of NFSv4: an OPEN does.
void RenewLeases() {
  for (;;) {
    std::this_thread::sleep_for(kLeaseRenewalInterval);
    const std::string path = attributes().opened();
    if (path.empty()) continue;
    for (int i = 0; i < pool().size(); ++i) {
      const Lease lease = Lease::Of(i);
      nfsfh* handle = nullptr;
      if (lease->Open(path, &handle) == 0) lease->Close(path);
    }
  }
}

void* Begin(fuse_conn_info* connection, fuse_config* config) {
  config->kernel_cache = 1;
  config->entry_timeout = kAttributesAreGoodForS;
  config->attr_timeout = kAttributesAreGoodForS;
  connection->max_background = kMaxRequestsOfKernel;
  connection->congestion_threshold = kMaxRequestsOfKernel * 3 / 4;
  connection->max_readahead = kMaxReadAheadBytes;
  connection->want |=
      connection->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS);
  std::thread(RenewLeases).detach();  // ends with the process
  return nullptr;
}

int Number(const char* text) {
  int number = 0;
  std::from_chars(text, text + std::strlen(text), number);
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  const int connections = argc >= 5 ? Number(argv[3]) : 0;
  copies() = argc >= 5 ? Number(argv[4]) : 0;
  if (connections < 1 || connections > kMaxConnections || copies() < 1) {
    std::fprintf(stderr, "usage: nfs_mount URL MOUNTPOINT CONNECTIONS COPIES [FUSE OPTIONS]\n");
    return 2;
  }
  // All at once: each needs several round trips.
  std::vector<std::unique_ptr<Connection>> made(static_cast<size_t>(connections));
  std::vector<std::thread> makers;
  for (int i = 0; i < connections; ++i) {
    makers.emplace_back([&, i] { made[static_cast<size_t>(i)] = Connection::Make(argv[1], i); });
  }
  for (std::thread& maker : makers) maker.join();
  for (std::unique_ptr<Connection>& connection : made) {
    if (connection == nullptr) return 1;
    pool().Add(std::move(connection));
  }
  fuse_operations operations = {};
  operations.init = Begin;
  operations.getattr = GetAttributes;
  operations.readdir = ListDirectory;
  operations.open = Open;
  operations.read = Read;
  operations.release = Release;
  std::vector<char*> arguments = {argv[0], argv[2]};
  arguments.insert(arguments.end(), argv + 5, argv + argc);
  const int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  return fuse_main(count, arguments.data(), &operations, nullptr);
}
