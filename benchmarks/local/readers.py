# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The readers that are compared, each used as its own documentation says.

What is read has been written by `emlio convert synthetic --example`, with the indexes of
`emlio index --dali-idx` beside the shards. A reader imports what it needs when it is opened: each
runs in a process of its own.
"""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

ByteArray = npt.NDArray[np.uint8]
# The features of every record.
NUMBER, DATA = "id", "data"


class Values(Protocol):
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[ByteArray]: ...


class Batch(NamedTuple):
    """What a training loop gets: an array of bytes for each record, and the records' numbers.

    Where payloads are handed out as they are, unparsed, there are no numbers.
    """

    numbers: npt.NDArray[np.int64] | None
    values: Values


class Reader(Protocol):
    """Opened on a folder of shards by its constructor; every `iter` is a pass over all records.

    Batches are valid until the next one is asked for.
    """

    def __iter__(self) -> Iterator[Batch]: ...

    def close(self) -> None: ...


def shards_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tfrecord"))


def index_of(shard: Path) -> Path:
    """Of the format that `tfrecord2idx` writes: a line "offset size" for each record."""
    return shard.with_name(shard.name + ".idx")


class EmlioLoader:
    """emlio.Loader as it comes."""

    def __init__(self, folder: Path, batch_size: int, raw: bool) -> None:
        import emlio

        self._raw = raw
        features = None if raw else {NUMBER: "int64", DATA: "bytes"}
        self._loader = emlio.Loader(folder, batch_size=batch_size, features=features)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._loader:
            if self._raw:
                yield Batch(None, batch.records)
            else:
                yield Batch(batch[NUMBER], batch[DATA])

    def close(self) -> None:
        self._loader.close()


class EmlioTorch:
    """emlio.torch.IterableDataset in torch's DataLoader."""

    def __init__(self, folder: Path, batch_size: int) -> None:
        import torch.utils.data

        import emlio.torch

        self._dataset = emlio.torch.IterableDataset(
            folder, batch_size=batch_size, features={NUMBER: "int64", DATA: "bytes"}
        )
        self._loader = torch.utils.data.DataLoader(self._dataset, batch_size=None)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._loader:
            yield Batch(batch[NUMBER].numpy(), batch[DATA])

    def close(self) -> None:
        self._dataset.loader.close()


class _DaliPipeline:
    """A pipeline whose outputs are bytes and numbers, once or several times.

    Nothing here refers to a batch any more when the next one is asked for: then its memory is used
    again, without which DALI is much slower.
    """

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        pipeline.build()

    def _run(self) -> list[Batch]:
        outputs = self._pipeline.run()
        return [
            Batch(numbers.as_array().reshape(-1), [np.asarray(value) for value in values])
            for values, numbers in zip(outputs[0::2], outputs[1::2], strict=True)
        ]

    def close(self) -> None:
        del self._pipeline
        gc.collect()


class EmlioDali(_DaliPipeline):
    """A pipeline that EMLIO feeds."""

    def __init__(self, folder: Path, batch_size: int, threads: int, no_copy: bool) -> None:
        from nvidia.dali import Pipeline, fn

        import emlio.dali

        self._loader = emlio.Loader(
            folder, batch_size=batch_size, features={NUMBER: "int64", DATA: "bytes"}
        )

        pipeline = Pipeline(batch_size=batch_size, num_threads=threads, device_id=None)
        with pipeline:
            outputs = fn.external_source(
                source=emlio.dali.source(self._loader, [DATA, NUMBER]),
                num_outputs=2,
                no_copy=no_copy,
            )
            pipeline.set_outputs(*outputs)
        super().__init__(pipeline)

    def __iter__(self) -> Iterator[Batch]:
        while True:
            try:
                batches = self._run()
            except StopIteration:
                self._pipeline.reset()
                return
            while batches:
                yield batches.pop(0)

    def close(self) -> None:
        super().close()
        self._loader.close()


class DaliTfrecord(_DaliPipeline):
    """DALI's own reader; several of them share the records if asked to."""

    def __init__(
        self,
        folder: Path,
        batch_size: int,
        threads: int,
        readers: int = 1,
        prefetch_queue_depth: int = 1,
        dont_use_mmap: bool = False,
    ) -> None:
        import nvidia.dali.tfrecord as tfrec
        from nvidia.dali import Pipeline, fn

        paths = shards_of(folder)
        features = {
            DATA: tfrec.FixedLenFeature([], tfrec.string, ""),
            NUMBER: tfrec.FixedLenFeature([1], tfrec.int64, 0),
        }

        pipeline = Pipeline(batch_size=batch_size, num_threads=threads, device_id=None)
        with pipeline:
            outputs = []
            for i in range(readers):
                read: Any = fn.readers.tfrecord(
                    name=f"reader{i}",
                    path=[str(path) for path in paths],
                    index_path=[str(index_of(path)) for path in paths],
                    features=features,
                    num_shards=readers,
                    shard_id=i,
                    stick_to_shard=True,
                    prefetch_queue_depth=prefetch_queue_depth,
                    dont_use_mmap=dont_use_mmap,
                )
                outputs += [read[DATA], read[NUMBER]]
            pipeline.set_outputs(*outputs)
        super().__init__(pipeline)
        records = self._pipeline.reader_meta("reader0")["epoch_size"]
        self._runs, rest = divmod(records, batch_size * readers)
        if rest != 0:
            raise ValueError(f"{records} records are no whole number of batches of {batch_size}")

    def __iter__(self) -> Iterator[Batch]:
        for _ in range(self._runs):
            batches = self._run()
            while batches:
                yield batches.pop(0)


class TfData:
    """tf.data.TFRecordDataset; payloads as they are, or parsed by tf.io.parse_example."""

    def __init__(
        self,
        folder: Path,
        batch_size: int,
        threads: int,
        raw: bool,
        num_parallel_reads: int | None = None,
        interleave: bool = False,
    ) -> None:
        import tensorflow as tf

        paths = [str(path) for path in shards_of(folder)]
        if interleave:  # as the guide to the performance of tf.data does it
            dataset = tf.data.Dataset.from_tensor_slices(paths).interleave(
                tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
            )
        else:
            dataset = tf.data.TFRecordDataset(paths, num_parallel_reads=num_parallel_reads)
        dataset = dataset.batch(batch_size)
        if not raw:
            features = {
                NUMBER: tf.io.FixedLenFeature([], tf.int64),
                DATA: tf.io.FixedLenFeature([], tf.string),
            }
            dataset = dataset.map(
                lambda batch: tf.io.parse_example(batch, features),
                num_parallel_calls=tf.data.AUTOTUNE,
            )
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        self._dataset = dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
        self._raw = raw

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._dataset.as_numpy_iterator():
            values = batch if self._raw else batch[DATA]
            yield Batch(
                None if self._raw else batch[NUMBER],
                [np.frombuffer(value, np.uint8) for value in values],
            )

    def close(self) -> None:
        del self._dataset
        gc.collect()


class _RecordsByNumber:
    """A map-style data set, as many write their own: an index, pread, a protobuf parser."""

    def __init__(self, folder: Path) -> None:
        from tfrecord.example_pb2 import Example

        self._parse: Callable[[bytes], Any] = Example.FromString
        self._files = [os.open(shard, os.O_RDONLY) for shard in shards_of(folder)]
        self._places = [
            (file, int(offset), int(size))
            for file, shard in zip(self._files, shards_of(folder), strict=True)
            for offset, size in np.loadtxt(index_of(shard), dtype=np.int64, ndmin=2)
        ]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, i: int) -> dict[str, Any]:
        file, offset, size = self._places[i]
        # A record is its length, 8 bytes, a checksum, 4, the payload, and another checksum.
        feature = self._parse(os.pread(file, size - 16, offset + 12)).features.feature
        return {
            NUMBER: feature[NUMBER].int64_list.value[0],
            DATA: np.frombuffer(feature[DATA].bytes_list.value[0], np.uint8),
        }

    def close(self) -> None:
        for file in self._files:
            os.close(file)


class Torch:
    """torch's DataLoader over one of two data sets: the one above, or that of `tfrecord`.

    Worker processes hand over one tensor for all records of a batch, as default_collate makes it
    of records of one size; without workers that copy is not made.
    """

    def __init__(self, folder: Path, batch_size: int, package: bool, workers: int) -> None:
        import torch.utils.data

        # About tensors over memory that cannot be written to.
        warnings.filterwarnings("ignore", message=".*not writable.*", category=UserWarning)
        self._by_number: _RecordsByNumber | None = None
        if package:
            from tfrecord.torch.dataset import TFRecordDataset

            dataset: Any = torch.utils.data.ChainDataset(
                [
                    TFRecordDataset(
                        str(shard),
                        str(index_of(shard)),
                        {NUMBER: "int", DATA: "byte"},
                        transform=_from_package,
                    )
                    for shard in shards_of(folder)
                ]
            )
        else:
            dataset = self._by_number = _RecordsByNumber(folder)
        self._loader: Any = torch.utils.data.DataLoader(
            dataset,
            batch_size=batch_size,
            num_workers=workers,
            persistent_workers=workers > 0,
            collate_fn=_lists if workers == 0 else torch.utils.data.default_collate,
        )

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._loader:
            if isinstance(batch, Batch):
                yield batch
            else:
                yield Batch(batch[NUMBER].numpy(), list(batch[DATA].numpy()))

    def close(self) -> None:
        del self._loader
        gc.collect()
        if self._by_number is not None:
            self._by_number.close()


def _from_package(record: dict[str, Any]) -> dict[str, Any]:
    return {NUMBER: int(record[NUMBER][0]), DATA: np.frombuffer(record[DATA], np.uint8)}


def _lists(records: list[dict[str, Any]]) -> Batch:
    return Batch(
        np.array([record[NUMBER] for record in records]), [record[DATA] for record in records]
    )


READERS: dict[str, Callable[..., Reader]] = {
    "emlio": EmlioLoader,
    "emlio_dali": EmlioDali,
    "emlio_torch": EmlioTorch,
    "dali_tfrecord": DaliTfrecord,
    "tfdata": TfData,
    "torch": Torch,
}
