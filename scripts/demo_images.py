# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a labelled folder of JPEG crops, about 100 KB each, of freely licensed photographs.

The photographs are those of Debian's package mate-backgrounds (GPL-2+). They are smooth, so noise
is added to bring the files to the size that ImageNet's have. The same count gives the same files.
"""

import argparse
import io
import multiprocessing
import sys
from pathlib import Path

import numpy as np
from PIL import Image

PHOTOGRAPHS = Path("/usr/share/backgrounds/mate/nature")
QUALITY = 94
NOISE_SIGMA = 11.0


def crop(photograph: Image.Image, rng: np.random.Generator) -> bytes:
    """One JPEG of 440 to 560 pixels width, 4:3, from somewhere in the photograph."""
    width = int(rng.integers(440, 561))
    height = width * 3 // 4
    scale = rng.uniform(0.9, 2.2)
    box_width = min(photograph.width, int(width * scale))
    box_height = min(photograph.height, int(height * scale))
    left = int(rng.integers(0, photograph.width - box_width + 1))
    top = int(rng.integers(0, photograph.height - box_height + 1))
    box = (left, top, left + box_width, top + box_height)
    pixels = np.asarray(photograph.resize((width, height), Image.Resampling.BILINEAR, box=box))
    noise = rng.normal(0, NOISE_SIGMA * rng.uniform(0.5, 1.5), (height, width, 1))
    noisy = np.clip(pixels + np.rint(noise), 0, 255).astype(np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(noisy).save(encoded, "JPEG", quality=QUALITY)
    return encoded.getvalue()


def make_class(job: tuple[Path, Path, int, int]) -> int:
    """Writes the crops of one photograph; returns their bytes."""
    source, folder, count, seed = job
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, 7])
    photograph = Image.open(source).convert("RGB")
    total = 0
    for number in range(count):
        data = crop(photograph, rng)
        (folder / f"crop{number:05d}.jpg").write_bytes(data)
        total += len(data)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("destination", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    arguments = parser.parse_args()
    sources = sorted(PHOTOGRAPHS.glob("*.jpg"))
    if not sources:
        sys.exit(f"no photographs in {PHOTOGRAPHS}: install the package mate-backgrounds")
    jobs = []
    for label, source in enumerate(sources):
        share = arguments.count // len(sources) + (label < arguments.count % len(sources))
        if share > 0:
            jobs.append((source, arguments.destination / source.stem, share, label))
    with multiprocessing.Pool() as pool:
        total = sum(pool.imap_unordered(make_class, jobs))
    print(
        f"{arguments.count} crops of {len(jobs)} photographs, "
        f"{total / arguments.count / 1e3:.0f} KB each on average, {total / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
