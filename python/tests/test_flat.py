# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Memory, threads and descriptors stay as they are, however long and often data are read."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import Daemon, emlio_executable, run_python

Serve = Callable[[Path], Daemon]

MIB = 1 << 20
# What may come on top between the fifth round and the last. What is read ahead is kept small: it
# should not take many rounds until that was full once.
SLACK_BYTES = 20 * MIB

# What a program in an interpreter of its own needs: how large it and the daemon are.
MEASURE = """
import gc, json, os, pathlib, sys

def usage(pid="self"):
    process = pathlib.Path(f"/proc/{pid}")
    rss = next(line for line in (process / "status").read_text().splitlines()
               if line.startswith("VmRSS"))
    anonymous = next(line for line in (process / "status").read_text().splitlines()
                     if line.startswith("RssAnon"))
    return {
        "rss": int(rss.split()[1]) << 10,
        "anonymous": int(anonymous.split()[1]) << 10,
        "threads": len(list((process / "task").iterdir())),
        "descriptors": len(list((process / "fd").iterdir())),
    }

def measure():
    gc.collect()
    return {"loader": usage(), "daemon": usage(sys.argv[2])}

samples = []

# The most of the first rounds, and the least of the last ones: what is on its way just when it is
# measured does not count, what is kept from round to round does.
def report(warm=5):
    print(json.dumps({
        name: {
            process: {kind: pick(sample[process][kind] for sample in some) for kind in usage()}
            for process in ("loader", "daemon")
        }
        for name, pick, some in (("before", max, samples[:warm]), ("after", min, samples[-5:]))
    }))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 MB in 2000 records."""
    folder = tmp_path_factory.mktemp("large")
    command = [emlio_executable(), "convert", "synthetic", str(folder), "--example"]
    command += ["--records", "2000", "--record-bytes", "100000", "--shards", "4"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def check_flat(code: str, daemon: Daemon, *arguments: object) -> None:
    status, out, err = run_python(MEASURE + code, daemon.url, daemon.pid, *arguments, timeout_s=300)
    assert status == 0, err
    report = json.loads(out.splitlines()[-1])
    for process in ("loader", "daemon"):
        before, after = report["before"][process], report["after"][process]
        # Pages of mapped shards are the system's to keep: not memory of the daemon's own.
        kind = "rss" if process == "loader" else "anonymous"
        assert after[kind] <= before[kind] + SLACK_BYTES, (process, before, after)
        assert after["threads"] <= before["threads"], (process, before, after)
        assert after["descriptors"] <= before["descriptors"], (process, before, after)


FRONTS = {
    "plain": """
import emlio
source = emlio.Loader(sys.argv[1], batch_size=100, features={"id": "int64"},
                      shuffle="full", prefetch_mb=32)
def read():
    return sum(len(batch) for batch in source)
""",
    "torch": """
import emlio.torch
from torch.utils.data import DataLoader
source = DataLoader(
    emlio.torch.IterableDataset(
        sys.argv[1], batch_size=100, features={"id": "int64"}, shuffle="full", prefetch_mb=32),
    batch_size=None)
def read():
    return sum(len(batch["id"]) for batch in source)
""",
    "dali": """
import emlio.dali
from nvidia.dali import Pipeline, fn
loader = emlio.Loader(
    sys.argv[1], batch_size=100, features={"id": "int64", "data": "bytes"},
    shuffle="full", prefetch_mb=32)
pipe = Pipeline(batch_size=100, num_threads=1, device_id=None)
with pipe:
    ids, data = fn.external_source(
        source=emlio.dali.source(loader, ["id", "data"]), num_outputs=2)
    pipe.set_outputs(ids, data)
pipe.build()
def read():
    records = 0
    while True:
        try:
            records += len(pipe.run()[0])
        except StopIteration:
            pipe.reset()
            return records
""",
}


@pytest.mark.parametrize("front", FRONTS)
def test_fifty_epochs(serve: Serve, large: Path, front: str) -> None:
    if front != "plain":
        pytest.importorskip({"dali": "nvidia.dali", "torch": "torch"}[front])
    daemon = serve(large)
    check_flat(
        FRONTS[front]
        + """
for epoch in range(50):
    assert read() == 2000
    samples.append(measure())
report(int(sys.argv[3]))
""",
        daemon,
        # DALI's own buffers grow for about twenty epochs, and no more in the next eighty.
        20 if front == "dali" else 5,
    )


def test_fifty_loaders_built_and_closed(serve: Serve, large: Path) -> None:
    daemon = serve(large)
    check_flat(
        """
import emlio
for i in range(50):
    with emlio.Loader(sys.argv[1], batch_size=100, features={"id": "int64"}) as loader:
        next(iter(loader))
    samples.append(measure())
# The daemon notices closed connections a moment later.
import time
deadline = time.monotonic() + 30
while usage(sys.argv[2])["descriptors"] > samples[0]["daemon"]["descriptors"]:
    assert time.monotonic() < deadline, "the daemon keeps connections"
    time.sleep(0.05)
samples.append(measure())
report()
""",
        daemon,
    )


def test_a_thousand_passes_of_which_one_batch_was_taken(serve: Serve, large: Path) -> None:
    daemon = serve(large)
    check_flat(
        """
import emlio
loader = emlio.Loader(sys.argv[1], batch_size=10, features={"id": "int64"}, prefetch_mb=8)
for i in range(1000):
    next(iter(loader))
    if i < 5 or i >= 995:
        samples.append(measure())
report()
""",
        daemon,
    )


def test_two_hundred_epochs_within_few_descriptors(serve: Serve, hundred: Path) -> None:
    daemon = serve(hundred)
    check_flat(
        """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import emlio
loader = emlio.Loader(sys.argv[1], batch_size=10, features={"id": "int64"})
for i in range(200):
    assert sum(len(batch) for batch in loader) == 100
    samples.append(measure())
report()
""",
        daemon,
    )


def test_too_few_descriptors_are_an_error_that_says_so(serve: Serve, hundred: Path) -> None:
    daemon = serve(hundred)
    status, out, err = run_python(
        """
        import resource, sys
        import emlio
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        try:
            loader = emlio.Loader(sys.argv[1], batch_size=10, streams=32)
            print(sum(len(batch) for batch in loader))
        except emlio.Error as error:
            print(type(error).__name__, error)
        """,
        daemon.url,
    )
    assert status == 0, err
    assert "LimitExceededError" in out
    assert "descriptor" in out or "open files" in out
