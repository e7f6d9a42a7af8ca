# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""How images become pictures (reading.py) where several peers do it alike: by Pillow, by DALI."""

import io
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.peers.reading import NUMBER_AT, NUMBER_END, SHAPE, SIDE, number_of

BATCHES_AHEAD = 4

# The numbers of a batch's images, and their pictures, in the same order.
Pictures = tuple[Sequence[int], Any]


def processors() -> int:
    """How many decode at the same time, where threads do it."""
    return len(os.sched_getaffinity(0))


def decode(image: Any) -> Any:
    """The picture of an encoded image, by Pillow, as torchvision's transforms do it."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(image)) as opened:
        rgb = opened.convert("RGB")
    return np.asarray(rgb.resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def decode_batch(images: Sequence[Any]) -> Pictures:
    """Decodes images one after another."""
    import numpy as np

    pictures = np.empty((len(images), *SHAPE), np.uint8)
    for image, picture in zip(images, pictures, strict=True):
        picture[...] = decode(image)
    return [number_of(image) for image in images], pictures


def decoded_ahead(batches: Iterable[Sequence[Any]]) -> Iterator[Pictures]:
    """Decodes batches in as many threads as there are processors; a few are kept ready."""
    import numpy as np

    def decode_into(image: Any, picture: Any) -> int:
        picture[...] = decode(image)
        return number_of(image)

    ready: deque[tuple[Iterator[int], Any]] = deque()

    def take() -> Pictures:
        numbers, pictures = ready.popleft()
        return list(numbers), pictures

    with ThreadPoolExecutor(processors()) as pool:
        for images in batches:
            pictures = np.empty((len(images), *SHAPE), np.uint8)
            ready.append((pool.map(decode_into, images, pictures), pictures))
            if len(ready) > BATCHES_AHEAD:
                yield take()
        while ready:
            yield take()


def dali_outputs(encoded: Any) -> tuple[Any, Any]:
    """In a DALI pipeline: the pictures of encoded images, and the bytes of their numbers."""
    from nvidia.dali import fn

    pictures = fn.resize(fn.decoders.image(encoded, device="cpu"), size=(SIDE, SIDE))
    return pictures, encoded[NUMBER_AT:NUMBER_END]


def from_dali(pictures: Any, numbers: Any) -> Pictures:
    """What a run of such a pipeline gave, as views."""
    import numpy as np

    return numbers.as_array().view(np.uint64).ravel().tolist(), pictures.as_array()
