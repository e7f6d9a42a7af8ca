# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model twice, over TCP and from local files, and compares the two."""

import argparse
import io
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

import emlio

SIDE = 64
FEATURES = {"image/encoded": "bytes", "image/class/label": "int64"}


@dataclass
class Epoch:
    """What one pass over the data gave."""

    images: int
    payload_bytes: int
    seconds: float
    wait_seconds: float
    io_cpu_seconds: float
    loss: float
    missing: int
    repeated: int


def cpu_seconds(process: str, thread_names: tuple[str, ...] = ("",)) -> float:
    """CPU time of those threads of a process whose names begin so."""
    nanoseconds = 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        try:
            if (thread / "comm").read_text().startswith(thread_names):
                nanoseconds += int((thread / "schedstat").read_text().split()[0])
        except OSError:
            continue  # it has ended
    return nanoseconds / 1e9


def io_cpu_seconds(daemon_pid: int | None) -> float:
    """CPU time of data loading: the loader's threads here, and the daemon."""
    here = cpu_seconds("self", ("emlio-", "ZMQ"))
    return here + (cpu_seconds(str(daemon_pid)) if daemon_pid else 0.0)


def make_model(classes: int) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, 32, 64):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def decode(images: emlio.BytesColumn) -> torch.Tensor:
    """JPEG files to one float tensor of shape (B, 3, SIDE, SIDE)."""
    batch = np.empty((len(images), SIDE, SIDE, 3), np.uint8)
    for i, encoded in enumerate(images):
        image = Image.open(io.BytesIO(memoryview(encoded)))
        image.draft("RGB", (2 * SIDE, 2 * SIDE))  # let libjpeg scale down while it decodes
        batch[i] = np.asarray(image.convert("RGB").resize((SIDE, SIDE)))
    return torch.from_numpy(batch).permute(0, 3, 1, 2).float() / 255 - 0.5


def train(source: str, daemon_pid: int | None, epochs: int, classes: int) -> list[Epoch]:
    model = make_model(classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    results = []
    loader = emlio.Loader(
        source,
        batch_size=64,
        features=FEATURES,
        shuffle="full",
        seed=1,
        epochs=epochs,
        prefetch_mb=16,  # less than an epoch, so that each epoch's figures are its own
    )
    with loader:
        for _ in range(epochs):
            seen = np.zeros(loader.records, np.int64)
            losses, payload_bytes = 0.0, 0
            wait_before, cpu_before = loader.stats()["wait_s"], io_cpu_seconds(daemon_pid)
            start = time.perf_counter()
            for batch in loader:
                np.add.at(seen, batch.indices, 1)
                labels = torch.from_numpy(batch["image/class/label"])
                loss = nn.functional.cross_entropy(model(decode(batch["image/encoded"])), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses += loss.item() * len(batch)
                payload_bytes += batch.payload_bytes
            images = int(seen.sum())
            results.append(
                Epoch(
                    images=images,
                    payload_bytes=payload_bytes,
                    seconds=time.perf_counter() - start,
                    wait_seconds=loader.stats()["wait_s"] - wait_before,
                    io_cpu_seconds=io_cpu_seconds(daemon_pid) - cpu_before,
                    loss=losses / images,
                    missing=int((seen == 0).sum()),
                    repeated=int((seen > 1).sum()),
                )
            )
    return results


def print_table(runs: dict[str, list[Epoch]]) -> None:
    print(
        f"{'source':8} {'epoch':>5} {'images/s':>9} {'MB/s':>7} {'wait':>6} {'CPU s/GB':>9}  loss"
    )
    for name, epochs in runs.items():
        for number, epoch in enumerate(epochs):
            print(
                f"{name:8} {number:5} {epoch.images / epoch.seconds:9.0f} "
                f"{epoch.payload_bytes / epoch.seconds / 1e6:7.1f} "
                f"{epoch.wait_seconds / epoch.seconds:6.1%} "
                f"{epoch.io_cpu_seconds / (epoch.payload_bytes / 1e9):9.2f}  {epoch.loss:.6f}"
            )
    print(
        "wait: share of the time that training waited for data. CPU s/GB: of loading, both ends,\n"
        "without decoding and training."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--remote", required=True, help="tcp://host:port/dataset")
    parser.add_argument("--local", required=True, help="pattern of the same shards")
    parser.add_argument("--daemon-pid", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()

    with emlio.Loader(arguments.local, batch_size=256, features=FEATURES) as loader:
        labels = np.concatenate([batch["image/class/label"] for batch in loader])
    classes = int(labels.max()) + 1

    runs = {
        "tcp": train(arguments.remote, arguments.daemon_pid, arguments.epochs, classes),
        "local": train(arguments.local, None, arguments.epochs, classes),
    }
    print_table(runs)

    failures = []
    for name, epochs in runs.items():
        for number, epoch in enumerate(epochs):
            if epoch.missing or epoch.repeated or epoch.images != len(labels):
                failures.append(
                    f"{name}, epoch {number}: {epoch.missing} records missing, "
                    f"{epoch.repeated} repeated"
                )
    losses = {name: [epoch.loss for epoch in epochs] for name, epochs in runs.items()}
    if losses["tcp"] != losses["local"]:
        failures.append(f"the losses differ: {losses}")
    if failures:
        sys.exit("FAILED: " + "; ".join(failures))
    print(
        f"ok: each of {len(labels)} records exactly once in each of {arguments.epochs} epochs, "
        "over TCP and locally;\nok: the losses are the same to the last bit"
    )


if __name__ == "__main__":
    main()
