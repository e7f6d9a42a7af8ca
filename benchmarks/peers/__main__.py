# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Installs peers, lists them, and runs them over loopback to see whether they work.

Run it by benchmarks/peers/run. README.md has the rules.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import Environments, default_cache
from benchmarks.peers.harness import PEERS, passes_for, run_once
from benchmarks.peers.images import ImageSet, make_images
from benchmarks.peers.node import LOOPBACK
from benchmarks.peers.peer import BUILD, Tools
from benchmarks.processes import BenchmarkError
from benchmarks.report import REPOSITORY, Result, environment, say, summarize, write_json

UNITS = {"KB": 1_000, "MB": 1_000_000}


def size(text: str) -> int:
    """For argparse: 100KB, 2MB."""
    found = re.fullmatch(r"(\d+)(KB|MB)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 10KB or 2MB")
    return int(found.group(1)) * UNITS[found.group(2)]


def setting(text: str) -> tuple[str, str, Any]:
    """For argparse: PEER.NAME=VALUE."""
    found = re.fullmatch(r"([\w-]+)\.(\w+)=(.*)", text)
    if found is None or found.group(1) not in PEERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form PEER.NAME=VALUE")
    value = found.group(3)
    try:
        return found.group(1), found.group(2), json.loads(value)
    except ValueError:
        return found.group(1), found.group(2), value


def peer_names(text: str) -> list[str]:
    """For argparse: names with commas between them."""
    names = text.split(",")
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"no peer {name!r}; there are {', '.join(PEERS)}")
    return names


def build(program: str) -> None:
    """Builds a program of this folder; says what went wrong."""
    say(f"{program}: building")
    for command in (
        ["cmake", "--preset", "release"],
        ["cmake", "--build", "--preset", "release", "--target", program],
    ):
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        if done.returncode != 0:
            say(f"{program}: {' '.join(command)} failed: {done.stdout[-1000:]}{done.stderr}")
            return


def install(names: Sequence[str], tools: Tools) -> int:
    """Installs what can be installed without rights; tells of the rest. Returns failures."""
    failures = 0
    for program in sorted({program for name in names for program in PEERS[name].builds}):
        if not (BUILD / program).exists():
            build(program)
    for name in names:
        say(f"{name}: installing")
        try:
            PEERS[name].install(tools)
        except (BenchmarkError, OSError) as error:
            say(f"{name}: {error}")
            failures += 1
            continue
        lacking = PEERS[name].missing(tools)
        failures += bool(lacking)
        say(f"{name}: " + ("missing: " + "; ".join(lacking) if lacking else "ready"))
    return failures


def list_peers(tools: Tools) -> None:
    for name, peer in PEERS.items():
        lacking = peer.missing(tools)
        print(f"{name:13} {peer.title}")
        print(f"{'':13} {'missing: ' + '; '.join(lacking) if lacking else 'ready'}")
        print(f"{'':13} settings {json.dumps(peer.defaults)}")


def apt_packages() -> list[str]:
    """Debian packages of all peers."""
    found: set[str] = set()
    for peer in PEERS.values():
        found.update(peer.packages)
        for program in peer.programs:
            found.update(program.package.split())
    return sorted(found)


def describe(row: dict[str, Any]) -> str:
    """A row for people."""
    peaks = [row[at]["peak_memory_bytes"] for at in NODES]
    memory = " + ".join("n/a" if peak is None else f"{peak / 2**20:,.0f}" for peak in peaks)
    cpu = " + ".join(f"{row[at]['cpu_s_per_gb']:.2f}" for at in NODES)
    rate = f"{row['images_per_s']:,.0f} images/s, " if row["images"] else ""
    first = f", first batch {row['first_batch_s']:.3f} s" if row["first_batch_s"] else ""
    return (
        f"{rate}{row['mb_per_s']:,.0f} MB/s, {row['seconds']:.2f} s{first}, "
        f"CPU {cpu} s/GB, memory {memory} MiB (storage + compute)"
    )


NODES = ("storage", "compute")


def run(
    names: Sequence[str], images: ImageSet, passes: int, tools: Tools, args: argparse.Namespace
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Runs each peer once; rows, and why others have none."""
    rows = []
    failures = {}
    for name in names:
        lacking = PEERS[name].missing(tools)
        if lacking:
            failures[name] = "missing: " + "; ".join(lacking)
        else:
            settings = {key: value for peer, key, value in args.set if peer == name}
            try:
                row = run_once(
                    *(name, images, passes),
                    storage=LOOPBACK,
                    compute=LOOPBACK,
                    tools=tools,
                    settings=settings,
                    limit_s=args.limit_s,
                    decode=args.decode,
                )
            except (BenchmarkError, OSError, subprocess.SubprocessError) as error:
                failures[name] = str(error)
            else:
                rows.append(row)
        say(f"{name}: " + (failures[name] if name in failures else describe(rows[-1])))
    return rows, failures


def results(rows: Sequence[dict[str, Any]]) -> list[Result]:
    """The figures of rows in the form that all benchmarks have."""
    found = []
    for row in rows:
        prefix = row["peer"].replace("-", "_")
        settings = {"settings": row["settings"], "passes": row["passes"], "images": row["images"]}
        settings["decode"] = row["decode"]
        cpu = row["storage"]["cpu_s_per_gb"] + row["compute"]["cpu_s_per_gb"]
        found += [
            summarize(f"{prefix}_mb_per_s", [row["mb_per_s"]], "MB/s", **settings),
            summarize(f"{prefix}_cpu_s_per_gb", [cpu], "s/GB", **settings),
        ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/peers/run", description=__doc__)
    parser.add_argument("--list", action="store_true", help="what there is, and what is missing")
    parser.add_argument("--apt", action="store_true", help="print the Debian packages of all peers")
    parser.add_argument(
        *("--install",),
        nargs="*",
        metavar="PEER",
        help="install these (all, where none is named), each into an environment of its own",
    )
    parser.add_argument(
        "--peers", type=peer_names, metavar="A,B", help="run these; default: all that are installed"
    )
    parser.add_argument("--images", type=int, default=200, metavar="N")
    parser.add_argument(
        "--image-bytes", type=size, default=size("100KB"), metavar="SIZE", help="10KB, 100KB, 2MB"
    )
    parser.add_argument(
        "--photographs", action="store_true", help="JPEG files of about 103 KB that can be decoded"
    )
    parser.add_argument(
        *("--decode",),
        action="store_true",
        help="the trainer's side decodes every image (photographs)",
    )
    parser.add_argument("--epochs", type=int, default=1, metavar="N")
    parser.add_argument(
        *("--least-gb",),
        type=float,
        default=0,
        metavar="GB",
        help="more epochs until it is so much",
    )
    parser.add_argument(
        *("--set",),
        type=setting,
        action="append",
        default=[],
        metavar="PEER.NAME=VALUE",
        help="change a setting, such as webdataset.workers=4",
    )
    parser.add_argument("--limit-s", type=float, default=600, help="of each run")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument(
        *("--cache",),
        type=Path,
        default=default_cache(),
        help="folder of environments and images [$EMLIO_PEERS_CACHE, else %(default)s]",
    )
    parser.add_argument(
        *("--emlio",),
        type=Path,
        default=REPOSITORY / ".venv/bin/emlio",
        help="the executable [%(default)s]; the package is that of the Python that runs this",
    )
    args = parser.parse_args()
    tools = Tools(Environments(args.cache), args.emlio.absolute())

    if args.apt:
        print(" ".join(apt_packages()))
        return 0
    if args.list:
        list_peers(tools)
        return 0
    if args.install is not None:
        names = peer_names(",".join(args.install)) if args.install else list(PEERS)
        return 1 if install(names, tools) else 0

    chosen = args.peers or [
        name
        for name, peer in PEERS.items()
        if not peer.missing(tools) and (peer.decodes or not args.decode)
    ]
    try:
        mean_bytes = None if args.photographs or args.decode else args.image_bytes
        images = make_images(args.cache / "images", args.images, mean_bytes)
    except BenchmarkError as error:
        say(f"error: {error}")
        return 1
    passes = passes_for(images, args.epochs, args.least_gb * 1e9)
    say(f"{images.count} images, {images.total_bytes / 1e6:,.0f} MB, read {passes} times")
    rows, failures = run(chosen, images, passes, tools, args)
    if args.json is not None:
        versions = {
            f"{name} {package}": version
            for name in chosen
            for package, version in PEERS[name].versions(tools).items()
        }
        write_json(args.json, environment(versions), results(rows), runs=rows, failures=failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
