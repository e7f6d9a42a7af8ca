# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A file system that refuses to map files: one folder again, through FUSE with direct I/O.

usage: no_mmap_mount.py SOURCE MOUNT

Shows the files of SOURCE in MOUNT, read-only, until it is killed, and says "ready" when they are
there. Speaks the kernel's protocol itself, as include/uapi/linux/fuse.h has it, so that no library
is needed. Needs root and /dev/fuse.
"""

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 25, 26, 27, 28, 29, 36, 42

MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
FOPEN_DIRECT_IO = 1  # past the page cache, so that nothing can be mapped and shared
ROOT = 1  # its node
BUFFER_BYTES = 1 << 20


def attributes(node: int, path: Path) -> bytes:
    status = path.stat()
    nanoseconds = [status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns]
    return struct.pack(
        "<6Q10I",
        *(node, status.st_size, status.st_blocks),
        *(time // 10**9 for time in nanoseconds),
        *(time % 10**9 for time in nanoseconds),
        *(status.st_mode, 1, status.st_uid, status.st_gid, 0, 4096, 0),
    )


class Folder:
    """Answers what the kernel asks about one folder of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = sorted(path.name for path in folder.iterdir())

    def path(self, node: int) -> Path:
        return self.folder if node == ROOT else self.folder / self.names[node - ROOT - 1]

    def answer(self, operation: int, node: int, body: bytes) -> bytes | None:
        """None: nothing is to be answered. OSError: with that error."""
        if operation == INIT:
            major, minor = struct.unpack_from("<II", body)
            return struct.pack(
                "<4I2H2I2H8I", major, min(minor, 31), 0, 0, 16, 12, 4096, 1, *[0] * 10
            )
        if operation in (FORGET, BATCH_FORGET, INTERRUPT):
            return None
        if operation == LOOKUP:
            name = os.fsdecode(body.rstrip(b"\0"))
            if name not in self.names:
                raise FileNotFoundError(errno.ENOENT, name)
            child = ROOT + 1 + self.names.index(name)
            valid = struct.pack("<4Q2I", child, 0, 1, 1, 0, 0)
            return valid + attributes(child, self.path(child))
        if operation == GETATTR:
            return struct.pack("<Q2I", 1, 0, 0) + attributes(node, self.path(node))
        if operation == OPENDIR:
            return struct.pack("<Q2I", 0, 0, 0)
        if operation == OPEN:
            handle = os.open(self.path(node), os.O_RDONLY)
            return struct.pack("<Q2I", handle, FOPEN_DIRECT_IO, 0)
        if operation == READ:
            handle, offset, size = struct.unpack_from("<2QI", body)
            return os.pread(handle, size, offset)
        if operation == READDIR:
            _, begin, size = struct.unpack_from("<2QI", body)
            return self.entries(begin, size)
        if operation == RELEASE:
            os.close(struct.unpack_from("<Q", body)[0])
            return b""
        if operation in (RELEASEDIR, FLUSH):
            return b""
        if operation == STATFS:
            return struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        raise OSError(errno.ENOSYS, "not answered")

    def entries(self, begin: int, size: int) -> bytes:
        listing = b""
        for number in range(begin, len(self.names)):
            name = os.fsencode(self.names[number])
            entry = struct.pack("<2Q2I", ROOT + 1 + number, number + 1, len(name), 8) + name
            entry += bytes(-len(entry) % 8)
            if len(listing) + len(entry) > size:
                break
            listing += entry
        return listing


def serve(folder: Folder, device: int) -> None:
    header = struct.Struct("<2I2Q3I2H")
    while True:
        try:
            request = os.read(device, BUFFER_BYTES)
        except OSError as error:
            if error.errno == errno.ENODEV:  # no longer mounted
                return
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            raise
        _, operation, unique, node, *_ = header.unpack_from(request)
        failure = 0
        answer: bytes | None = b""
        try:
            answer = folder.answer(operation, node, request[header.size :])
        except OSError as error:
            failure = error.errno or errno.EIO
        if answer is not None:
            os.write(device, struct.pack("<IiQ", 16 + len(answer), -failure, unique) + answer)


def main() -> None:
    source, mount = Path(sys.argv[1]), sys.argv[2]
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"emlio-test", os.fsencode(mount), b"fuse", flags, options.encode()) != 0:
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    print("ready", flush=True)
    serve(Folder(source), device)


if __name__ == "__main__":
    main()
