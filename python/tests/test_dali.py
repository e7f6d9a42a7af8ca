# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A CPU-only DALI pipeline fed by a loader through external_source."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emlio.dali
import shards
from processes import Daemon

dali = pytest.importorskip("nvidia.dali")
fn = pytest.importorskip("nvidia.dali.fn")
Image = pytest.importorskip("PIL.Image")

FEATURES = {"image/encoded": "bytes", "label": "int64", "boxes": "float[]"}
SIZES = [(16 + number, 40 - number) for number in range(18)]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """18 JPEG images of one colour each; the height tells which one it is."""
    payloads = []
    for number, (height, width) in enumerate(SIZES):
        pixels = np.full((height, width, 3), 10 * number, np.uint8)
        jpeg = io.BytesIO()
        Image.fromarray(pixels).save(jpeg, "JPEG", quality=95)
        payloads.append(
            shards.example(
                {
                    "image/encoded": shards.bytes_list([jpeg.getvalue()]),
                    "label": shards.int64_list([number]),
                    "boxes": shards.float_list([0.5] * (number % 3)),
                }
            )
        )
    shards.write_shard(tmp_path / "a.tfrecord", payloads[:10])
    shards.write_shard(tmp_path / "b.tfrecord", payloads[10:])
    return tmp_path


def pipeline(source: Callable[[], Any], outputs: int, no_copy: bool) -> Any:
    made = dali.Pipeline(batch_size=4, num_threads=1, device_id=None)
    with made:
        encoded, *rest = fn.external_source(source=source, num_outputs=outputs, no_copy=no_copy)
        made.set_outputs(fn.decoders.image(encoded, device="cpu"), *rest)
    made.build()
    return made


@pytest.mark.parametrize("no_copy", [False, True])
def test_two_epochs_of_decoded_images(
    images: Path, serve: Callable[[Path], Daemon], no_copy: bool
) -> None:
    loader = emlio.Loader(serve(images).url, batch_size=4, features=FEATURES, shuffle="full")
    pipe = pipeline(emlio.dali.source(loader, list(FEATURES)), len(FEATURES), no_copy)
    orders = []
    for _ in range(2):
        order: list[int] = []
        while True:
            try:
                decoded, labels, boxes = pipe.run()
            except StopIteration:
                pipe.reset()
                break
            for image, label, box in zip(decoded, labels, boxes, strict=True):
                number = int(np.asarray(label))
                order.append(number)
                pixels = np.asarray(image)
                assert pixels.shape == (*SIZES[number], 3)
                assert abs(int(pixels.mean()) - 10 * number) <= 2
                assert np.asarray(box).tolist() == [0.5] * (number % 3)
        orders.append(order)
    assert [sorted(order) for order in orders] == [list(range(18))] * 2
    assert orders[0] != orders[1]


@pytest.mark.parametrize("shuffle", ["none", "full", "block"])
@pytest.mark.parametrize(
    ("tail", "sizes"), [("keep", [4] * 4 + [2]), ("drop", [4] * 4), ("pad", [4] * 5)]
)
def test_every_shuffle_and_tail_gives_as_many_batches_as_the_loader_says(
    images: Path, shuffle: str, tail: str, sizes: list[int]
) -> None:
    options: dict[str, Any] = {"features": FEATURES, "shuffle": shuffle, "tail": tail}
    loader = emlio.Loader(images, batch_size=4, **options)
    made = dali.Pipeline(batch_size=4, num_threads=1, device_id=None)
    with made:
        source = emlio.dali.source(loader, ["label", emlio.dali.VALID])
        made.set_outputs(*fn.external_source(source=source, num_outputs=2))
    made.build()
    for _ in range(2):
        seen: list[int] = []
        valid: list[int] = []
        while True:
            try:
                labels, masks = made.run()
            except StopIteration:
                made.reset()
                break
            seen.append(len(labels))
            for label, is_valid in zip(labels, masks, strict=True):
                if np.asarray(is_valid):
                    valid.append(int(np.asarray(label)))
        assert seen == sizes
        assert len(seen) == len(loader)
        assert len(set(valid)) == len(valid) == (16 if tail == "drop" else 18)


def test_one_name_is_one_output(images: Path) -> None:
    loader = emlio.Loader(images, batch_size=4, features=FEATURES)
    made = dali.Pipeline(batch_size=4, num_threads=1, device_id=None)
    with made:
        made.set_outputs(fn.external_source(source=emlio.dali.source(loader, "label")))
    made.build()
    (labels,) = made.run()
    assert [int(np.asarray(label)) for label in labels] == [0, 1, 2, 3]


def test_an_empty_list_of_names_is_refused(images: Path) -> None:
    with pytest.raises(emlio.InvalidArgumentError, match="name at least one"):
        emlio.dali.source(emlio.Loader(images, batch_size=4), [])
