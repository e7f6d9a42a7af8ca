// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emlio/base/status.h"

namespace emlio {

// What decides whether a file has to be looked at again. Not proof of its contents.
struct FileIdentity {
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  uint64_t inode = 0;
  uint64_t device = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A file opened read-only, at any position, from any thread.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  virtual const std::string& path() const = 0;
  // Identity of the open inode now.
  virtual Result<FileIdentity> Identity() const = 0;
  // Reads up to `size` bytes at `offset` into `to`; fewer only at the end of the file.
  virtual Result<size_t> ReadAt(uint64_t offset, size_t size, void* to) const = 0;
  // The same into several places, one behind the other. REQUIRES: at most 1024 places.
  virtual Result<uint64_t> ReadInto(uint64_t offset,
                                    std::span<const std::span<uint8_t>> places) const;
  // Reads a few bytes only if that needs no waiting for storage. False if it does, if there are
  // fewer, and where the file system cannot tell.
  virtual bool ReadFromMemory(uint64_t offset, std::span<uint8_t> to) const {
    (void)offset;
    (void)to;
    return false;
  }
  // What the system knows the open file by; -1 for one that is not the system's.
  virtual int descriptor() const { return -1; }
  // Tells the system that the range will be read soon. A hint: never fails.
  virtual void WillNeed(uint64_t offset, size_t size) const = 0;
  // Tells it that nobody will read the range soon: the pages that lie in it as a whole are free for
  // others. A hint.
  virtual void WillNotNeed(uint64_t offset, size_t size) const {
    (void)offset;
    (void)size;
  }
};

// A file mapped read-only. The mapping lives as long as the object. Touching a page that the file
// lost meanwhile raises SIGBUS: read it through GuardedCopy only.
class MappedFile {
 public:
  // Maps the whole file as it is now. An empty file gives an empty mapping. kUnsupported: its file
  // system refuses mappings (some network and user-space ones do).
  static Result<std::unique_ptr<MappedFile>> Map(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  const FileIdentity& identity() const { return identity_; }  // when it was mapped
  // As RandomAccessFile::WillNeed. REQUIRES: the range lies inside the mapping.
  void WillNeed(uint64_t offset, size_t size) const;

 private:
  MappedFile() = default;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  FileIdentity identity_;
};

// One piece of a gathering copy.
struct CopyRange {
  const uint8_t* from = nullptr;
  uint8_t* to = nullptr;
  size_t size = 0;
};

// Copies every range, from mappings whose file may shrink at any moment. False when a page was
// gone (what was written by then is unspecified). Thread-safe. The first call installs a SIGBUS
// handler that passes every fault that is not ours to the handler that was there before.
bool GuardedCopy(std::span<const CopyRange> ranges);

// A file that appears whole or not at all: written beside its destination under a temporary name,
// synced and renamed by Commit. The destructor removes what was not committed. A destination that
// is a link stays one: what it leads to is replaced. A pipe or a device is written to as it is, not
// as a whole, from the first flush on, which waits for a pipe's reader. One thread at a time.
class AtomicFile {
 public:
  // kPermissionDenied also for a link that another user put where everybody may write.
  static Result<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Buffered; an error of an earlier write may show up in a later one or in Commit. The first error
  // stays: after it nothing can be committed any more.
  Status Append(const void* data, size_t size);
  // REQUIRES: called once, after the last Append.
  Status Commit();
  uint64_t written_bytes() const { return written_bytes_; }

 private:
  AtomicFile() = default;
  Status Flush();
  Status WritePending();
  std::string path_;
  std::string temporary_path_;
  bool in_place_ = false;
  int fd_ = -1;
  uint64_t written_bytes_ = 0;
  std::vector<uint8_t> pending_;
  Status failure_;  // of the first write that failed
};

// A file that grows by whole pieces. One thread at a time.
class AppendFile {
 public:
  // Made when missing.
  static Result<std::unique_ptr<AppendFile>> Open(const std::string& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // On disk when it returns. After an error a part of the piece may be in the file.
  Status Append(std::string_view piece);

 private:
  AppendFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  const std::string path_;
  const int fd_;
};

// Keeps out every other process that locks the same directory, until it is destroyed or the
// process ends, however it ends.
class DirectoryLock {
 public:
  // kPermissionDenied when another one holds it. Where the file system knows no locks this keeps
  // nobody out.
  static Result<std::unique_ptr<DirectoryLock>> Take(const std::string& path);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  const int fd_;
};

// Opens a regular file for reading, never for writing.
Result<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path);
Result<FileIdentity> IdentityOf(const std::string& path);
// The whole file; kLimitExceeded when it is larger than `max_bytes`.
Result<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);
// Makes the directory and its parents.
Status MakeDirectories(const std::string& path);
// The names of what lies in a directory, sorted bytewise, without "." and "..".
Result<std::vector<std::string>> NamesInDirectory(const std::string& path);
// Gives a file another name on the same file system; what had that name is replaced.
Status MoveFile(const std::string& from, const std::string& to);
// A file that is gone already is no error.
Status RemoveFile(const std::string& path);
// Puts the names of a directory's files on disk.
Status SyncDirectory(const std::string& path);

}  // namespace emlio
