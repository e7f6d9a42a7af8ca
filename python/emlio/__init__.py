# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""EMLIO: ready batches for training, pushed from the hosts that store the data.

    import emlio

    loader = emlio.Loader("tcp://storage:7070/imagenet", batch_size=64, shuffle="full",
                          features={"image/encoded": "bytes", "label": "int64"})
    for batch in loader:
        images, labels = batch["image/encoded"], batch["label"]

`emlio.torch`, `emlio.dali` and `emlio.energy` are imported when they are first used.
docs/python.md is the guide.
"""

import importlib
from typing import TYPE_CHECKING, Any

from emlio._core import (
    Batch,
    BytesColumn,
    CancelledError,
    CorruptError,
    Error,
    InternalError,
    InvalidArgumentError,
    IoError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    PlanMismatchError,
    ProtocolError,
    Ragged,
    ShardChangedError,
    TimeoutError,
    TruncatedError,
    UnavailableError,
    UnsupportedError,
    __version__,
)
from emlio._loader import Loader

if TYPE_CHECKING:
    from emlio import dali as dali
    from emlio import energy as energy
    from emlio import torch as torch

__all__ = [
    "Batch",
    "BytesColumn",
    "CancelledError",
    "CorruptError",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "LimitExceededError",
    "Loader",
    "NotFoundError",
    "PermissionDeniedError",
    "PlanMismatchError",
    "ProtocolError",
    "Ragged",
    "ShardChangedError",
    "TimeoutError",
    "TruncatedError",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in ("dali", "energy", "torch"):
        return importlib.import_module(f"emlio.{name}")
    raise AttributeError(f"module 'emlio' has no attribute {name!r}")
