# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The images that every peer reads, and the formats that several of them share.

A set of images lies in a folder of its own and is made once. `folder/c07/000027.jpg` are the
images, `catalogue.json` their sizes and sums; every other format is made of the folder when a peer
first needs it, beside it.
"""

import ctypes
import functools
import io
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.decoding import decode
from benchmarks.peers.reading import NUMBER_PREFIX, sketch
from benchmarks.processes import BenchmarkError, command_line, run_json
from benchmarks.report import REPOSITORY

CLASSES = 20
SHARDS = 16  # as many as the largest number of workers that a peer is given
END_OF_IMAGE = b"\xff\xd9"


def image_path(number: int) -> str:
    """Where an image lies below `folder`."""
    return f"c{number % CLASSES:02d}/{number:06d}.jpg"


@dataclass(frozen=True)
class ImageSet:
    """Images on the storage node; all peers read the same ones."""

    root: Path
    count: int
    total_bytes: int

    @property
    def folder(self) -> Path:
        return self.root / "folder"

    @property
    def catalogue(self) -> Path:
        return self.root / "catalogue.json"

    def image(self, number: int) -> bytes:
        return (self.folder / image_path(number)).read_bytes()

    def shards(self) -> list[range]:
        """The numbers of the images of each shard; fewer shards where there are few images."""
        shards = min(SHARDS, self.count)
        bounds = [self.count * i // shards for i in range(shards + 1)]
        return [range(a, b) for a, b in itertools.pairwise(bounds)]

    def made(self, name: str, make: Callable[[Path], None]) -> Path:
        """The folder `name` beside the images; `make` fills it, once."""
        return made(self.root / name, make)

    def tfrecord(self) -> Path:
        """TFRecord shards, in which a record is an image, and nothing else."""
        return self.made("tfrecord", self._make_tfrecord)

    def _make_tfrecord(self, folder: Path) -> None:
        crc = masked_crc32c()
        for index, numbers in enumerate(self.shards()):
            with (folder / f"train-{index:05d}.tfrecord").open("wb") as shard:
                for number in numbers:
                    image = self.image(number)
                    length = struct.pack("<Q", len(image))
                    shard.write(length + crc(length))
                    shard.write(image)
                    shard.write(crc(image))

    def example(self, emlio: Path) -> Path:
        """Shards of tf.train.Example, the image in the feature `image/encoded`.

        `index` in it has DALI's indexes. `emlio` is the executable, which makes all this.
        """
        return self.made("example", functools.partial(self._make_example, emlio))

    def _make_example(self, emlio: Path, folder: Path) -> None:
        shards = ("--shards", len(self.shards()), "--no-shuffle", "--overwrite")
        run_json(
            command_line(
                *(emlio, "convert", "imagefolder", self.folder, folder, shards, "--json", "-")
            )
        )
        (folder / "labels.txt").unlink()
        index = ("--dali-idx-dir", folder / "index", "--index-dir", folder / "index-emlio")
        (folder / "index").mkdir()
        run_json(command_line(emlio, "index", f"{folder}/*.tfrecord", index, "--json", "-"))
        shutil.rmtree(folder / "index-emlio")

    def sketches(self) -> Path:
        """A file with the sketch of each picture (reading.py).

        Raises:
            BenchmarkError: these images cannot be decoded.
        """
        return self.made("pictures", self._make_sketches) / "sketches.json"

    def _make_sketches(self, folder: Path) -> None:
        try:
            found = [sketch(decode(self.image(number))) for number in range(self.count)]
        except OSError as error:
            raise BenchmarkError(
                f"images of {self.root.name} cannot be decoded, photographs can: {error}"
            ) from error
        (folder / "sketches.json").write_text(json.dumps(found))

    def tar(self) -> Path:
        """Tar files of images."""
        return self.made("tar", self._make_tar)

    def _make_tar(self, folder: Path) -> None:
        for index, numbers in enumerate(self.shards()):
            path = folder / f"train-{index:05d}.tar"
            with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
                for number in numbers:
                    image = self.image(number)
                    member = tarfile.TarInfo(f"{number:06d}.jpg")
                    member.size = len(image)
                    tar.addfile(member, io.BytesIO(image))


def made(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that appears whole: `make` fills it under another name first."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        try:
            make(unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def passes_of(folder: Path, passes: int) -> list[Path]:
    """The folder under as many names, by hard links, which take no room.

    A client that keeps files in a cache takes these for different ones, as if the data set were
    that many times as large: no pass is read from its cache.
    """

    def link(source: Path, copy: Path) -> None:
        shutil.copytree(source, copy, copy_function=os.link, dirs_exist_ok=True)

    return [folder] + [
        made(folder.with_name(f"{folder.name}.pass{i}"), functools.partial(link, folder))
        for i in range(1, passes)
    ]


@functools.cache
def masked_crc32c() -> Callable[[bytes], bytes]:
    """The checksum of TFRecord files, by ISA-L, which EMLIO itself is built on."""
    try:
        library = ctypes.CDLL("libisal.so.2")
    except OSError as error:
        raise BenchmarkError(f"{error}: apt-get install libisal2") from error
    crc32_iscsi = library.crc32_iscsi
    crc32_iscsi.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint]
    crc32_iscsi.restype = ctypes.c_uint

    def checksum(data: bytes) -> bytes:
        crc = crc32_iscsi(data, len(data), 0xFFFFFFFF) ^ 0xFFFFFFFF
        rotated = (crc >> 15) | (crc << 17 & 0xFFFFFFFF)
        return struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)

    return checksum


def numbered(jpeg: bytes, number: int) -> bytes:
    """A JPEG file that carries its number in a comment segment; decoders pass over it."""
    return NUMBER_PREFIX + struct.pack("<Q", number) + jpeg[2:]


def synthetic(count: int, mean_bytes: int) -> Iterator[bytes]:
    """Random bytes that begin and end as JPEG files do; the same for the same arguments.

    Sizes are spread evenly over 0.6 to 1.4 times the mean. They cannot be decoded.
    """
    import numpy as np

    for number in range(count):
        random = np.random.default_rng([number, 11])
        size = int(random.integers(int(mean_bytes * 0.6), int(mean_bytes * 1.4) + 1))
        body = random.bytes(size - len(NUMBER_PREFIX) - 8 - len(END_OF_IMAGE))
        yield numbered(END_OF_IMAGE + body + END_OF_IMAGE, number)


def photographs(count: int) -> Iterator[bytes]:
    """Crops of photographs, about 103 KB each (scripts/demo_images.py)."""
    with tempfile.TemporaryDirectory(prefix="emlio-photographs-") as folder:
        made_there = subprocess.run(
            [sys.executable, REPOSITORY / "scripts/demo_images.py", folder, "--count", str(count)],
            capture_output=True,
            text=True,
        )
        if made_there.returncode != 0:
            raise BenchmarkError(f"scripts/demo_images.py: {made_there.stderr.strip()}")
        for number, path in enumerate(sorted(Path(folder).rglob("*.jpg"))):
            yield numbered(path.read_bytes(), number)


def make_images(root: Path, count: int, mean_bytes: int | None) -> ImageSet:
    """The set of that many images below `root`, made if it is not there.

    Args:
        root: the folder of all sets.
        count: how many images.
        mean_bytes: the size of synthetic images; None: photographs.
    """
    if count < 1 or (mean_bytes is not None and mean_bytes < 100):
        raise BenchmarkError("at least 1 image, of at least 100 bytes")
    name = "photographs" if mean_bytes is None else f"synthetic-{mean_bytes}"
    images = photographs(count) if mean_bytes is None else synthetic(count, mean_bytes)
    here = made(root / f"{name}-{count}", lambda folder: _write_images(folder, images))
    catalogue = json.loads((here / "catalogue.json").read_text())
    return ImageSet(here, count, sum(catalogue["bytes"]))


def _write_images(folder: Path, images: Iterator[bytes]) -> None:
    import numpy as np

    for label in range(CLASSES):
        (folder / f"folder/c{label:02d}").mkdir(parents=True)
    sizes, sums = [], []
    for number, image in enumerate(images):
        (folder / "folder" / image_path(number)).write_bytes(image)
        sizes.append(len(image))
        sums.append(int(np.frombuffer(image, np.uint8).sum(dtype=np.uint64)) % 256)
    (folder / "catalogue.json").write_text(json.dumps({"bytes": sizes, "sums": sums}))


@functools.cache
def load_into_memory(folder: Path) -> None:
    """Reads every file from the beginning, so that storage is the same for all: the page cache.

    In the state that reading in order leaves, in large pages, whoever had read the files before:
    what random reads brought in page by page costs a server up to half as much again. Once for each
    process and folder.
    """
    os.sync()  # or what was just written would stay
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                # As cat does: after reads of 4 MiB a server needed more processor time.
                while file.read(1 << 17):
                    pass
