// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace emlio {
namespace {

constexpr size_t kWriteBufferBytes = size_t{1} << 20;

// Closes a descriptor when the scope ends, unless it was taken over.
class FdCloser {
 public:
  explicit FdCloser(int fd) : fd_(fd) {}
  ~FdCloser() {
    if (fd_ >= 0) close(fd_);
  }
  FdCloser(const FdCloser&) = delete;
  FdCloser& operator=(const FdCloser&) = delete;
  int get() const { return fd_; }
  int Take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

FileIdentity ToIdentity(const struct stat& info) {
  FileIdentity identity;
  identity.size_bytes = static_cast<uint64_t>(info.st_size);
  identity.mtime_ns = info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
  identity.inode = info.st_ino;
  identity.device = info.st_dev;
  return identity;
}

// Opens read-only and checks that it is a regular file.
Result<int> OpenRegular(const std::string& path, struct stat* info) {
  FdCloser fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return ErrnoStatus(errno, fmt::format("cannot open {}", path));
  if (fstat(fd.get(), info) != 0) return ErrnoStatus(errno, fmt::format("cannot stat {}", path));
  if (!S_ISREG(info->st_mode)) {
    return InvalidArgument(fmt::format("{} is not a regular file", path));
  }
  return fd.Take();
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, fmt::format("cannot write {}", path));
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

class PosixFile : public RandomAccessFile {
 public:
  PosixFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixFile() override { close(fd_); }
  int descriptor() const override { return fd_; }

  bool ReadFromMemory(uint64_t offset, std::span<uint8_t> to) const override {
    const iovec part{to.data(), to.size()};
    const ssize_t n = preadv2(fd_, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    return n == static_cast<ssize_t>(to.size());
  }

  const std::string& path() const override { return path_; }

  Result<FileIdentity> Identity() const override {
    struct stat info;
    if (fstat(fd_, &info) != 0) return ErrnoStatus(errno, fmt::format("cannot stat {}", path_));
    return ToIdentity(info);
  }

  Result<size_t> ReadAt(uint64_t offset, size_t size, void* to) const override {
    size_t done = 0;
    while (done < size) {
      const ssize_t n = pread(fd_, static_cast<uint8_t*>(to) + done, size - done,
                              static_cast<off_t>(offset + done));
      if (n < 0) {
        if (errno == EINTR) continue;
        return ErrnoStatus(errno, fmt::format("cannot read {} at offset {}", path_, offset + done));
      }
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  Result<uint64_t> ReadInto(uint64_t offset,
                            std::span<const std::span<uint8_t>> places) const override {
    constexpr size_t kMaxPlaces = 1024;  // IOV_MAX of Linux
    std::array<iovec, kMaxPlaces> parts;
    uint64_t wanted = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      parts[i] = {places[i].data(), places[i].size()};
      wanted += places[i].size();
    }
    uint64_t done = 0;
    for (size_t first = 0; done < wanted;) {
      const ssize_t n = preadv(fd_, &parts[first], static_cast<int>(places.size() - first),
                               static_cast<off_t>(offset + done));
      if (n < 0) {
        if (errno == EINTR) continue;
        return ErrnoStatus(errno, fmt::format("cannot read {} at offset {}", path_, offset + done));
      }
      if (n == 0) break;
      done += static_cast<uint64_t>(n);
      // What a read leaves over, rare as it is, begins somewhere in the middle of a part.
      size_t rest = static_cast<size_t>(n);
      for (; first < places.size() && rest >= parts[first].iov_len; ++first) {
        rest -= parts[first].iov_len;
      }
      if (rest > 0) {
        parts[first].iov_base = static_cast<uint8_t*>(parts[first].iov_base) + rest;
        parts[first].iov_len -= rest;
      }
    }
    return done;
  }

  void WillNeed(uint64_t offset, size_t size) const override {
    (void)posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(size),
                        POSIX_FADV_WILLNEED);
  }

  void WillNotNeed(uint64_t offset, size_t size) const override {
    // Only whole pages are let go; what else lies in the others may have been read ahead.
    static const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t begin = (offset + page_bytes - 1) / page_bytes * page_bytes;
    const uint64_t end = (offset + size) / page_bytes * page_bytes;
    if (begin >= end) return;  // a length of 0 would mean all of the file
    (void)posix_fadvise(fd_, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                        POSIX_FADV_DONTNEED);
  }

 private:
  const std::string path_;
  const int fd_;
};

}  // namespace

Result<uint64_t> RandomAccessFile::ReadInto(uint64_t offset,
                                            std::span<const std::span<uint8_t>> places) const {
  uint64_t done = 0;
  for (const std::span<uint8_t> place : places) {
    EMLIO_ASSIGN_OR_RETURN(const size_t n, ReadAt(offset + done, place.size(), place.data()));
    done += n;
    if (n < place.size()) break;
  }
  return done;
}

Result<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path) {
  struct stat info;
  EMLIO_ASSIGN_OR_RETURN(const int fd, OpenRegular(path, &info));
  return std::unique_ptr<RandomAccessFile>(std::make_unique<PosixFile>(path, fd));
}

Result<FileIdentity> IdentityOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, fmt::format("cannot stat {}", path));
  }
  return ToIdentity(info);
}

Result<std::string> ReadWholeFile(const std::string& path, size_t max_bytes) {
  EMLIO_ASSIGN_OR_RETURN(auto file, OpenForReading(path));
  EMLIO_ASSIGN_OR_RETURN(const FileIdentity identity, file->Identity());
  if (identity.size_bytes > max_bytes) {
    return LimitExceeded(fmt::format("{} has {} bytes, more than the limit of {}", path,
                                     identity.size_bytes, max_bytes));
  }
  std::string contents(identity.size_bytes, '\0');
  EMLIO_ASSIGN_OR_RETURN(const size_t n, file->ReadAt(0, contents.size(), contents.data()));
  contents.resize(n);
  return contents;
}

Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), fmt::format("cannot make directory {}", path));
  return OkStatus();
}

Result<std::vector<std::string>> NamesInDirectory(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), fmt::format("cannot list directory {}", path));
  std::sort(names.begin(), names.end());
  return names;
}

Status MoveFile(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return OkStatus();
  return ErrnoStatus(errno, fmt::format("cannot rename {} to {}", from, to));
}

Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return OkStatus();
  return ErrnoStatus(errno, fmt::format("cannot remove {}", path));
}

Status SyncDirectory(const std::string& path) {
  const FdCloser fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, fmt::format("cannot open directory {}", path));
  // Some network file systems cannot do it, and need not.
  if (fsync(fd.get()) != 0 && errno != EINVAL) {
    return ErrnoStatus(errno, fmt::format("cannot sync directory {}", path));
  }
  return OkStatus();
}

Result<std::unique_ptr<AppendFile>> AppendFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, fmt::format("cannot open {}", path));
  return std::unique_ptr<AppendFile>(new AppendFile(path, fd));
}

AppendFile::~AppendFile() { close(fd_); }

Status AppendFile::Append(std::string_view piece) {
  EMLIO_RETURN_IF_ERROR(WriteAll(fd_, piece, path_));
  if (fdatasync(fd_) != 0) return ErrnoStatus(errno, fmt::format("cannot sync {}", path_));
  return OkStatus();
}

Result<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const std::string& path) {
  FdCloser fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, fmt::format("cannot open directory {}", path));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return PermissionDenied(fmt::format("another process is at work in {}", path));
  }
  return std::unique_ptr<DirectoryLock>(new DirectoryLock(fd.Take()));
}

DirectoryLock::~DirectoryLock() { close(fd_); }

Result<std::unique_ptr<MappedFile>> MappedFile::Map(const std::string& path) {
  struct stat info;
  EMLIO_ASSIGN_OR_RETURN(const int raw_fd, OpenRegular(path, &info));
  const FdCloser fd(raw_fd);
  auto file = std::unique_ptr<MappedFile>(new MappedFile);
  file->identity_ = ToIdentity(info);
  file->size_ = static_cast<size_t>(info.st_size);
  if (file->size_ > 0) {
    void* address = mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (address == MAP_FAILED) {
      file->size_ = 0;
      if (errno == ENODEV || errno == EOPNOTSUPP || errno == ENOSYS) {
        return Unsupported(
            fmt::format("cannot map {}: its file system does not let files be mapped", path));
      }
      return ErrnoStatus(errno, fmt::format("cannot map {}", path));
    }
    file->data_ = static_cast<const uint8_t*>(address);
  }
  return file;
}

void MappedFile::WillNeed(uint64_t offset, size_t size) const {
  // Whole pages; mappings begin at one.
  static const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page_bytes * page_bytes;
  (void)madvise(const_cast<uint8_t*>(data_) + begin, offset + size - begin, MADV_WILLNEED);
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<uint8_t*>(data_), size_);
}

namespace {

constexpr int kMaxLinks = 40;  // as the kernel has it

// Where a file of that name is to be put.
struct Destination {
  std::string path;       // with no link at its end
  bool in_place = false;  // something that no file may take the place of: a device, a pipe
};

// Whether root is led astray by a link that somebody else put into a directory of everybody
// (what Linux calls protected_symlinks).
bool IsTrap(const struct stat& link, const std::string& directory) {
  struct stat in;
  if (stat(directory.c_str(), &in) != 0) return false;
  const bool of_everybody = (in.st_mode & S_ISVTX) != 0 && (in.st_mode & S_IWOTH) != 0;
  return of_everybody && link.st_uid != geteuid() && link.st_uid != in.st_uid;
}

Result<Destination> FindDestination(const std::string& path) {
  Destination to{.path = path};
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    to.in_place = true;
    return to;
  }
  for (int links = 0; links < kMaxLinks; ++links) {
    if (lstat(to.path.c_str(), &info) != 0) {
      if (errno == ENOENT) return to;
      return ErrnoStatus(errno, fmt::format("cannot stat {}", to.path));
    }
    if (!S_ISLNK(info.st_mode)) return to;
    std::filesystem::path directory = std::filesystem::path(to.path).parent_path();
    if (directory.empty()) directory = ".";
    std::error_code error;
    // Links of open descriptors (/dev/fd/3, /dev/stdout) may lead to what has no name any more.
    if (std::filesystem::canonical(directory, error).native().starts_with("/proc/")) {
      to.in_place = true;
      return to;
    }
    if (IsTrap(info, directory)) {
      return PermissionDenied(fmt::format(
          "{} is a link of another user in a directory that everybody may write to", to.path));
    }
    const auto target = std::filesystem::read_symlink(to.path, error);
    if (error) return ErrnoStatus(error.value(), fmt::format("cannot read link {}", to.path));
    to.path = (directory / target).string();
  }
  return ErrnoStatus(ELOOP, fmt::format("cannot follow {}", path));
}

}  // namespace

Result<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  auto file = std::unique_ptr<AtomicFile>(new AtomicFile);
  EMLIO_ASSIGN_OR_RETURN(Destination to, FindDestination(path));
  file->path_ = std::move(to.path);
  file->in_place_ = to.in_place;
  if (file->in_place_) {
    // Opened when there is something to write: whoever reads a pipe sees it once.
    if (access(file->path_.c_str(), W_OK) == 0) return file;
    return ErrnoStatus(errno, fmt::format("cannot write {}", path));
  }
  do {
    // A process that was killed may have left a file of this name: in containers the same process
    // id comes again and again.
    file->temporary_path_ = fmt::format("{}.tmp.{}.{}", file->path_, getpid(), counter++);
    file->fd_ = open(file->temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  } while (file->fd_ < 0 && errno == EEXIST);
  if (file->fd_ < 0) {
    return ErrnoStatus(errno, fmt::format("cannot create {}", file->temporary_path_));
  }
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    close(fd_);
    if (!in_place_) unlink(temporary_path_.c_str());
  }
}

Status AtomicFile::Append(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  pending_.insert(pending_.end(), bytes, bytes + size);
  written_bytes_ += size;
  return pending_.size() >= kWriteBufferBytes ? Flush() : OkStatus();
}

Status AtomicFile::Flush() {
  // Trying again after a partial write would put some bytes into the file twice.
  if (failure_.ok()) failure_ = WritePending();
  return failure_;
}

Status AtomicFile::WritePending() {
  if (in_place_ && fd_ < 0) {
    std::fflush(stdout);  // it may lead there, too: what was printed before comes before
    fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    if (fd_ < 0) return ErrnoStatus(errno, fmt::format("cannot open {}", path_));
  }
  EMLIO_RETURN_IF_ERROR(WriteAll(fd_,
                                 {reinterpret_cast<const char*>(pending_.data()), pending_.size()},
                                 in_place_ ? path_ : temporary_path_));
  pending_.clear();
  return OkStatus();
}

Status AtomicFile::Commit() {
  EMLIO_RETURN_IF_ERROR(Flush());
  if (in_place_) {
    if (close(std::exchange(fd_, -1)) == 0) return OkStatus();
    return ErrnoStatus(errno, fmt::format("cannot close {}", path_));
  }
  if (fsync(fd_) != 0) return ErrnoStatus(errno, fmt::format("cannot sync {}", temporary_path_));
  if (close(std::exchange(fd_, -1)) != 0) {
    const int error_number = errno;
    unlink(temporary_path_.c_str());
    return ErrnoStatus(error_number, fmt::format("cannot close {}", temporary_path_));
  }
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    const int error_number = errno;
    unlink(temporary_path_.c_str());
    return ErrnoStatus(error_number, fmt::format("cannot rename {} to {}", temporary_path_, path_));
  }
  return OkStatus();
}

}  // namespace emlio
