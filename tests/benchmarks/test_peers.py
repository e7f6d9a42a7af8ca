# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""The harness of benchmarks/peers: what it counts and refuses, and whole runs over loopback."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.peers import environments, meter
from benchmarks.peers.__main__ import describe, install, setting, size
from benchmarks.peers.decoding import decode_batch, decoded_ahead
from benchmarks.peers.environments import Environments
from benchmarks.peers.harness import PEERS, measured, passes_for, run_once
from benchmarks.peers.images import (
    CLASSES,
    ImageSet,
    image_path,
    load_into_memory,
    made,
    make_images,
    numbered,
    passes_of,
    synthetic,
)
from benchmarks.peers.node import LOOPBACK, Host
from benchmarks.peers.peer import Peer, Tools, Work
from benchmarks.peers.reading import NUMBER_AT, NUMBER_END
from benchmarks.processes import BenchmarkError
from benchmarks.report import REPOSITORY

QUICK = ("emlio", "emlio-pull", "paper-python", "raw-tcp", "nginx", "iperf3")
# Few processes and threads: these runs are to work, not to be quick.
SMALL: dict[str, dict[str, Any]] = {
    "paper-python": {"threads": 2},
    "webdataset": {"workers": 2},
    "tfdata": {"workers": 2},
    "dali": {"connections": 4},
    "grain": {"threads": 4, "connections": 4},
    "litdata": {"workers": 2},
    "mosaic": {"workers": 2},
    "spdl": {"threads": 4},
    "torch-nfs": {"workers": 2, "connections": 4},
    "torch-sshfs": {"workers": 2, "connections": 2},
    "raw-tcp": {"streams": 3},
    "nginx": {"streams": 3},
    "iperf3": {"streams": 2},
}


# What has files, folders or streams for every pass, so that there cannot be many.
LINKED = ("dali", "grain", "litdata", "mosaic", "torch-nfs", "torch-sshfs")
BRIEF = ("emlio-pull", "raw-tcp", "iperf3")  # programs that need a few milliseconds for so little


class EnvironmentsHere(Environments):
    """As if the environment of the paper's design were that of the tests, which has all of it."""

    def python(self, name: str) -> Path:
        return Path(sys.executable) if name == "paper" else super().python(name)

    def is_installed(self, name: str) -> bool:
        return name == "paper" or super().is_installed(name)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    """An image a class that can be decoded: a bright quarter each, neighbours in other places."""
    root = tmp_path_factory.mktemp("pictures")
    sizes, sums = [], []
    for label in range(CLASSES):
        (root / f"folder/c{label:02d}").mkdir(parents=True)
    for number in range(CLASSES):
        picture = Image.new("RGB", (300, 200), (20, 40, 60))
        left, top = 150 * (number % 2), 100 * (number // 2 % 2)
        colour = (250, 200 - 8 * number, 10 + 8 * number)
        picture.paste(colour, (left, top, left + 150, top + 100))
        encoded = io.BytesIO()
        picture.save(encoded, "JPEG")
        image = numbered(encoded.getvalue(), number)
        (root / "folder" / image_path(number)).write_bytes(image)
        sizes.append(len(image))
        sums.append(sum(image) % 256)
    (root / "catalogue.json").write_text(json.dumps({"bytes": sizes, "sums": sums}))
    return ImageSet(root, CLASSES, sum(sizes))


def record(
    images: ImageSet, passes: int, body: str, decode: bool = False, **task: Any
) -> "subprocess.CompletedProcess[str]":
    """Runs a reader whose loop is `body`; it sees `recorder` and `image(number)`."""
    program = f"""
        import json, sys, time
        from pathlib import Path
        from benchmarks.peers.images import image_path
        from benchmarks.peers.reading import Recorder
        def image(number):
            return (Path({str(images.folder)!r}) / image_path(number)).read_bytes()
        task = {{"passes": {passes}, "catalogue": {str(images.catalogue)!r}}}
        task |= {task!r}
        if {decode}:
            task |= {{"decode": True, "sketches": {str(images.sketches() if decode else "")!r}}}
        with Recorder(task) as recorder:
            print("a library says something")
    """
    loop = textwrap.indent(textwrap.dedent(body), "    ")
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program) + loop],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def test_a_recorder_counts_images_bytes_batches_and_passes(images: ImageSet) -> None:
    done = record(
        images,
        2,
        """
        for _ in range(2):
            for begin in range(0, 150, 64):
                recorder.add([image(i) for i in range(begin, min(begin + 64, 150))])
        """,
    )
    result = json.loads(done.stdout)
    assert result["images"] == 300
    assert result["batches"] == 6
    assert result["bytes"] == 2 * images.total_bytes
    assert result["checksum"] == 2 * sum(json.loads(images.catalogue.read_text())["sums"])
    assert len(result["epoch_seconds"]) == 2
    assert sum(result["epoch_seconds"]) == pytest.approx(result["seconds"])
    assert 0 < result["first_batch_s"] <= result["seconds"]


def test_a_recorder_takes_images_in_any_order(images: ImageSet) -> None:
    done = record(images, 1, "recorder.add([image(149 - i) for i in range(150)])")
    assert json.loads(done.stdout)["images"] == 150


@pytest.mark.parametrize(
    ("what_comes", "complaint"),
    [
        ("[image(i) for i in range(149)]", "149 images came instead of 150"),
        ("[image(i) for i in range(149)] + [image(7)]", "image 7 came 2 times in 1 passes"),
        ("[image(i) for i in range(149)] + [image(149)[:-1] + b'?']", "image 149 came with other"),
        ("[image(i) for i in range(149)] + [image(149)[:-1]]", "image 149 came with other"),
        ("[image(i) for i in range(149)] + [bytes(14)]", "image 0 came 2 times"),
        ("[image(i) for i in range(149)] + [bytes([255] * 14)]", "not in the data set"),
    ],
)
def test_a_recorder_refuses_other_images(images: ImageSet, what_comes: str, complaint: str) -> None:
    done = record(images, 1, f"recorder.add({what_comes})")
    assert done.returncode != 0
    assert complaint in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("waits", ["time.sleep(600)", "while True: pass", "open({fifo!r}).read()"])
def test_a_loop_is_left_when_its_time_is_over(waits: str, images: ImageSet, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")  # opening it for reading waits for a writer
    body = f"""
        recorder.add([image(i) for i in range(64)])
        {waits.format(fifo=str(tmp_path / "fifo"))}
        """
    result = json.loads(record(images, 2, body, bound_s=0.2).stdout)
    assert result["ended_by"] == "seconds"
    assert result["images"] == 64
    assert result["epoch_seconds"] == []
    sizes = json.loads(images.catalogue.read_text())["bytes"]
    assert result["bytes"] == sum(sizes[:64])
    assert result["seconds"] == result["first_batch_s"]  # up to the last batch, not to the end


def test_a_loop_is_not_left_while_a_batch_is_added(images: ImageSet) -> None:
    body = """
        def slowly():
            for i in range(64, 128):
                time.sleep(0.01)
                yield image(i)
        recorder.add([image(i) for i in range(64)])
        recorder.add(slowly())
        recorder.add([image(i) for i in range(128, 150)])
        """
    result = json.loads(record(images, 1, body, bound_s=0.1).stdout)
    assert (result["ended_by"], result["images"], result["batches"]) == ("seconds", 128, 2)


def test_a_run_that_is_quicker_than_its_time_is_whole(images: ImageSet) -> None:
    done = record(images, 1, "recorder.add([image(i) for i in range(150)])", bound_s=60)
    result = json.loads(done.stdout)
    assert (result["ended_by"], result["images"]) == ("bytes", 150)
    assert len(result["epoch_seconds"]) == 1


@pytest.mark.parametrize(
    ("what_comes", "in_order", "complaint"),
    [
        ("[image(7)] * 3", False, "image 7 came 3 times in 2 passes"),
        ("[image(7)] * 2", True, "image 7 came 2 times in pass 1"),
        ("[image(i) for i in range(150)] + [image(7)] * 2", True, "came 3 times in 2 passes"),
        ("[image(7)[:-1] + b'?']", False, "image 7 came with other bytes"),
    ],
)
def test_what_came_of_a_run_that_was_cut_is_checked(
    images: ImageSet, what_comes: str, in_order: bool, complaint: str
) -> None:
    body = f"recorder.add({what_comes}); time.sleep(600)"
    done = record(images, 2, body, bound_s=0.1, in_order=in_order)
    assert complaint in done.stderr
    assert done.stdout == ""


def test_processor_time_at_a_moment_lies_between_what_was_seen() -> None:
    samples = [(1.0, 10.0), (2.0, 20.0), (4.0, 20.0)]
    moments = (0.0, 1.0, 1.5, 2.0, 3.0, 9.0)
    assert [meter.cpu_s_at(samples, at_s) for at_s in moments] == [10, 10, 15, 20, 20, 20]


PICTURES = """
    import numpy as np
    from benchmarks.peers.decoding import decode_batch
    numbers, pictures = decode_batch([image(i) for i in range(20)])
    {change}
    recorder.add_pictures(numbers, pictures)
    """


def test_a_recorder_takes_pictures_with_their_numbers(pictures: ImageSet) -> None:
    done = record(pictures, 1, PICTURES.format(change="numbers[:] = numbers"), decode=True)
    result = json.loads(done.stdout)
    assert result["images"] == CLASSES
    assert result["bytes"] == pictures.total_bytes
    assert result["checksum"] is None  # no two decoders agree to the bit


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("numbers[3] = 4", "image 3 came 0 times"),
        ("numbers[3], numbers[4] = 4, 3", "came as another picture"),
        ("pictures = pictures[..., ::-1]", "in other colours"),
        ("pictures = pictures[:, ::-1]", "came as another picture"),
        ("pictures = pictures[:, :100]", r"a picture of uint8 \(100, 224, 3\) came"),
        ("pictures = pictures.astype(np.float32)", "a picture of float32"),
        ("pictures = pictures[:19]", "shorter"),
    ],
)
def test_a_recorder_refuses_other_pictures(pictures: ImageSet, change: str, complaint: str) -> None:
    done = record(pictures, 1, PICTURES.format(change=change), decode=True)
    assert done.returncode != 0
    assert re.search(complaint, done.stderr)
    assert done.stdout == ""


def test_a_recorder_that_expects_pictures_refuses_images(pictures: ImageSet) -> None:
    done = record(pictures, 1, "recorder.add([image(i) for i in range(20)])", decode=True)
    assert "nobody had decoded" in done.stderr


def test_threads_decode_in_order(pictures: ImageSet) -> None:
    batches = [[pictures.image(i) for i in (a, a + 1)] for a in range(0, 8, 2)]
    decoded = list(decoded_ahead(batches))
    assert [list(numbers) for numbers, _ in decoded] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    for (_, ahead), batch in zip(decoded, batches, strict=True):
        assert (ahead == decode_batch(batch)[1]).all()


def test_images_that_are_none_cannot_be_decoded(images: ImageSet, tools: Tools) -> None:
    with pytest.raises(BenchmarkError, match="cannot be decoded, photographs can"):
        run(tools, "emlio", images, decode=True)


@pytest.mark.parametrize("name", ["iperf3", "nginx", "raw-tcp", "emlio-pull"])
def test_what_cannot_decode_says_so(name: str, images: ImageSet, tools: Tools) -> None:
    with pytest.raises(BenchmarkError, match=f"{name} decodes nothing"):
        run(tools, name, images, decode=True)


def test_images_can_be_made_again(tmp_path: Path) -> None:
    first, second = (make_images(tmp_path / name, 30, 1_000) for name in ("a", "b"))
    assert [first.image(i) for i in range(30)] == [second.image(i) for i in range(30)]
    assert first.catalogue.read_text() == second.catalogue.read_text()


def test_synthetic_images_have_the_size_asked_for_on_average() -> None:
    sizes = [len(image) for image in synthetic(200, 10_000)]
    assert min(sizes) >= 6_000
    assert max(sizes) <= 14_000
    assert 9_000 < sum(sizes) / 200 < 11_000


def test_a_numbered_photograph_can_still_be_decoded() -> None:
    encoded = io.BytesIO()
    picture = Image.new("RGB", (32, 16), (200, 30, 60))
    picture.save(encoded, "JPEG")
    jpeg = numbered(encoded.getvalue(), 123_456)
    assert int.from_bytes(jpeg[NUMBER_AT:NUMBER_END], "little") == 123_456
    decoded = Image.open(io.BytesIO(jpeg)).convert("RGB")
    assert decoded.tobytes() == Image.open(encoded).convert("RGB").tobytes()


@pytest.mark.skipif(not shutil.which("fincore"), reason="what lies in the page cache is not told")
def test_what_is_served_is_read_into_memory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    files = [tmp_path / "a", tmp_path / "sub" / "b"]
    for file in files:
        file.write_bytes(b"x" * 300_000)
    os.sync()
    for file in files:
        with file.open() as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    load_into_memory(tmp_path)
    for file in files:
        said = subprocess.run(
            ["fincore", "-nbo", "RES", file], check=True, capture_output=True, text=True
        )
        assert int(said.stdout) >= 300_000


def test_shards_hold_every_image_once(tmp_path: Path) -> None:
    for count in (1, 15, 16, 17, 1000):
        shards = ImageSet(tmp_path, count, 0).shards()
        assert [number for shard in shards for number in shard] == list(range(count))
        assert all(shard for shard in shards)


def test_a_folder_that_could_not_be_made_is_not_there(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise BenchmarkError("no more")

    with pytest.raises(BenchmarkError):
        made(tmp_path / "data", fail)
    assert list(tmp_path.iterdir()) == []


def test_passes_are_the_same_files_under_other_names(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a").write_text("x")
    folders = passes_of(folder, 3)
    assert len(set(folders)) == 3
    assert {(path / "a").stat().st_ino for path in folders} == {(folder / "a").stat().st_ino}


def test_small_data_sets_are_read_more_often(tmp_path: Path) -> None:
    images = ImageSet(tmp_path, 10, 1_000)
    assert passes_for(images, 1, 0) == 1
    assert passes_for(images, 1, 2_001) == 3
    assert passes_for(images, 5, 2_001) == 5


@contextmanager
def all_kinds_of_groups() -> Iterator[list[meter.Group]]:
    with meter.process_group("test") as best:
        yield [best, meter.ProcessTree()]


BURN = """
import subprocess, sys, time
child = "import time; held = bytearray(b'x' * 40_000_000)\\nwhile time.process_time() < 0.3: pass"
subprocess.run([sys.executable, "-c", child], check=True)
held = bytearray(b"x" * 60_000_000)
while time.process_time() < 0.3: pass
print("burnt", flush=True)
sys.stdin.read()
"""


def test_groups_count_processes_and_their_children() -> None:
    with all_kinds_of_groups() as groups:
        for group in groups:
            process = meter.MeteredNode(LOOPBACK, group).popen(
                [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            assert process.stdout.readline() == b"burnt\n"
            cpu_s, memory_bytes = group.cpu_s(), group.memory_bytes()
            process.communicate()
            assert cpu_s > 0.55  # 0.6 s less the grain of /proc
            assert memory_bytes > 60_000_000
            assert group.cpu_s() >= cpu_s  # those that have ended are still counted


def test_programs_that_tell_nothing_are_counted_without_control_groups(
    images: ImageSet, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "CPU_GROUPS", Path("/nowhere"))
    row = run(tools, "emlio-pull", images, passes=200)
    assert row["counted_by"].startswith("/proc")
    assert row["compute"]["cpu_s"] > 0
    assert row["storage"]["cpu_s"] > 0


def test_a_node_without_a_network_of_its_own_has_no_bytes_on_the_wire() -> None:
    with meter.WireCounters(LOOPBACK) as counters:
        assert counters.read() == (None, None)


def test_a_node_with_a_network_of_its_own_counts_its_bytes() -> None:
    def start(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(["unshare", "--user", "--net", *command], **options)

    if subprocess.run(["unshare", "--user", "--net", "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespaces here")
    with meter.WireCounters(Host("10.0.0.1", start)) as counters:
        assert counters.read() == (0, 0)


def test_environments_are_those_of_peers() -> None:
    files = {path.stem for path in environments.REQUIREMENTS.glob("*.txt")}
    assert files == {peer.environment for peer in PEERS.values() if peer.environment}
    for name in files:
        assert Environments(Path("/nowhere")).versions(name)


def test_an_environment_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("./no-such-folder\n")
    here = Environments(tmp_path / "cache", requirements=tmp_path)
    with pytest.raises(BenchmarkError, match="no-such-folder"):
        here.install("bad")
    assert not here.is_installed("bad")


def test_installing_goes_on_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def install_one(self: Environments, name: str) -> None:
        asked.append(name)
        if name == "webdataset":
            raise BenchmarkError("pip: no such version")

    monkeypatch.setattr(Environments, "install", install_one)
    monkeypatch.setattr(Environments, "is_installed", lambda self, name: name in asked)
    tools = Tools(Environments(tmp_path), Path("/nowhere/emlio"))
    assert install(["webdataset", "paper-python"], tools) == 1
    assert asked == ["webdataset", "paper"]
    said = capsys.readouterr().err
    assert "webdataset: pip: no such version" in said
    assert "paper-python: ready" in said


def test_an_environment_is_out_of_date_when_its_base_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run_nothing(command: list[str]) -> None:
        commands.append(command)
        if "venv" in command:
            Path(command[-1], "lib/python3/site-packages").mkdir(parents=True)

    monkeypatch.setattr(environments, "_run", run_nothing)
    (tmp_path / "below.txt").write_text("# nothing\n")
    (tmp_path / "above.txt").write_text("# base: below\n")
    here = Environments(tmp_path / "cache", requirements=tmp_path)
    here.install("above")
    assert here.is_installed("below")
    assert here.is_installed("above")
    assert len(commands) == 4
    here.install("above")
    assert len(commands) == 4
    (tmp_path / "below.txt").write_text("# something else\n")
    assert not here.is_installed("above")


def test_unknown_settings_are_refused(images: ImageSet, tools: Tools) -> None:
    with pytest.raises(BenchmarkError, match="emlio has no setting threads; it has shuffle"):
        run(tools, "emlio", images, settings={"threads": 1})


def test_sizes_and_settings_of_the_command_line() -> None:
    assert size("2MB") == 2_000_000
    assert setting("webdataset.workers=4") == ("webdataset", "workers", 4)
    assert setting("tfdata.compression=AUTO") == ("tfdata", "compression", "AUTO")
    for bad in ("nobody.workers=4", "webdataset.workers"):
        with pytest.raises(Exception, match=r"PEER\.NAME=VALUE"):
            setting(bad)


def run(
    tools: Tools,
    name: str,
    images: ImageSet,
    passes: int = 1,
    settings: dict[str, Any] | None = None,
    decode: bool = False,
    bound_s: float | None = None,
) -> dict[str, Any]:
    return run_once(
        *(name, images, passes),
        storage=LOOPBACK,
        compute=LOOPBACK,
        tools=tools,
        settings=settings,
        limit_s=120,
        decode=decode,
        bound_s=bound_s,
    )


def tools_for(name: str, tools: Tools) -> Tools:
    """What the peer is to be run with; skips the test where it cannot be run."""
    tools = Tools(EnvironmentsHere(environments.default_cache()), tools.emlio)
    if name not in QUICK and not os.environ.get("EMLIO_TEST_PEERS"):
        pytest.skip("takes long: set EMLIO_TEST_PEERS=1")
    lacking = PEERS[name].missing(tools)
    if lacking:
        pytest.skip("missing: " + "; ".join(lacking))
    return tools


@pytest.mark.parametrize("name", [name for name, peer in PEERS.items() if peer.decodes])
def test_every_peer_decodes_every_image_once_a_pass(
    name: str, pictures: ImageSet, tools: Tools
) -> None:
    tools = tools_for(name, tools)
    row = run(tools, name, pictures, passes=2, settings=SMALL.get(name), decode=True)
    assert row["decode"]
    assert row["images"] == 2 * CLASSES
    assert row["bytes"] == 2 * pictures.total_bytes
    assert len(row["epoch_seconds"]) == 2


@pytest.mark.parametrize("decoder", ["torch", "dali"])
def test_emlio_decodes_by_either_of_its_adapters(
    decoder: str, pictures: ImageSet, tools: Tools
) -> None:
    pytest.importorskip({"torch": "torch", "dali": "nvidia.dali"}[decoder])
    row = run(tools, "emlio", pictures, 2, {"decoder": decoder}, decode=True)
    assert row["images"] == 2 * CLASSES


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_reads_every_image_once_a_pass(
    name: str, images: ImageSet, tools: Tools
) -> None:
    tools = tools_for(name, tools)
    row = run(tools, name, images, passes=2, settings=SMALL.get(name))
    json.dumps(row)
    assert row["bytes"] >= 2 * images.total_bytes
    assert row["seconds"] > 0
    if PEERS[name].delivers_images:
        assert row["images"] == 300
        assert len(row["epoch_seconds"]) == 2
        assert row["first_batch_s"] > 0
    for node in ("storage", "compute"):
        assert row[node]["cpu_s"] > 0
        # A program may begin and end between two looks, or be seen when it has hardly begun.
        peak = row[node]["peak_memory_bytes"]
        assert name in BRIEF or (peak is not None and peak > 1_000_000)
        assert row[node]["wire_sent_bytes"] is None
    assert "MB/s" in describe(row)


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_stops_when_its_time_is_over(name: str, images: ImageSet, tools: Tools) -> None:
    tools = tools_for(name, tools)
    passes = 3 if name in LINKED else 10_000  # more than anybody reads in that time
    row = run(tools, name, images, passes=passes, settings=SMALL.get(name), bound_s=1.0)
    assert row["bound_s"] == 1.0
    assert 0 < row["bytes"] <= passes * (images.total_bytes + 16 * images.count)
    if name not in LINKED:
        assert row["ended_by"] == "seconds"
        assert row["bytes"] < passes * images.total_bytes
    assert row["mb_per_s"] == pytest.approx(row["bytes"] / row["seconds"] / 1e6)
    assert row["compute"]["cpu_s"] >= 0


def test_a_run_in_which_nothing_came_is_an_error(images: ImageSet, tools: Tools) -> None:
    class Nothing(Peer):
        name = "nothing"
        title = "a link so long that its time was over before anything came"

        def prepare(self) -> None:
            return None

        def serve(self, node: Any) -> Any:
            return nullcontext({})

        def read(self, node: Any, service: Any, marks: Any) -> dict[str, Any]:
            marks("ready")
            marks("done")
            return {"ended_by": "seconds", "bytes": 0, "seconds": 1.0}

    with pytest.raises(BenchmarkError, match="nothing: 0 bytes came in 1 s; give it more time"):
        measured(Nothing(Work(images, 1, images.root, tools)), LOOPBACK, LOOPBACK)


def test_a_reader_that_fails_is_an_error_with_its_message(
    tmp_path: Path, images: ImageSet, tools: Tools
) -> None:
    others = make_images(tmp_path, 150, 9_000)
    shutil.copytree(images.tfrecord(), others.root / "tfrecord")
    with pytest.raises(BenchmarkError, match="came with other bytes"):
        run(tools, "emlio", others)


def test_plain_sockets_notice_a_changed_byte(tmp_path: Path, tools: Tools) -> None:
    lacking = PEERS["raw-tcp"].missing(tools)
    if lacking:
        pytest.skip("missing: " + "; ".join(lacking))
    damaged = make_images(tmp_path, 20, 10_000)
    shard = min(damaged.tfrecord().iterdir())
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    with pytest.raises(BenchmarkError, match=r"raw_tcp_peer failed .*wrong checksum"):
        run(tools, "raw-tcp", damaged)


def test_a_run_that_takes_too_long_is_ended(images: ImageSet, tools: Tools) -> None:
    class Stuck(Peer):
        name = "stuck"
        title = "a reader that never ends"

        def prepare(self) -> None:
            return None

        def serve(self, node: Any) -> Any:
            raise NotImplementedError

        @property
        def python(self) -> Path:
            return Path(sys.executable)

        def python_command(self, action: str, task: Any) -> list[str]:
            return [sys.executable, "-c", "import time; time.sleep(600)"]

    with pytest.raises(BenchmarkError, match="stuck, read"):
        Stuck(Work(images, 1, images.root, tools, limit_s=0.5)).run_reader(
            LOOPBACK, {}, lambda word: None
        )


def test_the_first_image_of_a_class_lies_in_its_folder() -> None:
    assert image_path(27) == "c07/000027.jpg"
