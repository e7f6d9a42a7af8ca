# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""Threads, signals, forks and the end of the interpreter."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import emlio
import shards
from emlio import Loader
from processes import Daemon, run_python, start_python

Serve = Callable[[Path], Daemon]

# Enough for a pass to be far from its end when the little that is read ahead has arrived.
RECORDS, RECORD_BYTES = 4000, 1000
SMALL_PREFETCH: dict[str, Any] = {"batch_size": 8, "prefetch_mb": 1}


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("big")
    payload = shards.frame(bytes(RECORD_BYTES))
    for shard in range(4):
        (folder / f"s-{shard}").write_bytes(payload * (RECORDS // 4))
    return folder


def test_the_gil_is_free_while_a_batch_is_waited_for(serve: Serve, big: Path) -> None:
    daemon = serve(big)
    with Loader(daemon.url, **SMALL_PREFETCH, timeout_s=30) as loader:
        batches = iter(loader)
        next(batches)
        daemon.freeze()
        about_to_wait = threading.Event()
        counted = 0

        def count_and_thaw() -> None:
            nonlocal counted
            about_to_wait.wait()
            # With the GIL held in next(), this would never go on, nor the daemon after it.
            for _ in range(200_000):
                counted += 1
            daemon.thaw()

        thread = threading.Thread(target=count_and_thaw)
        thread.start()
        about_to_wait.set()
        rest = sum(len(batch) for batch in batches)
        thread.join()
        assert counted == 200_000
        assert rest == RECORDS - 8


def test_close_ends_a_wait_in_another_thread(serve: Serve, big: Path) -> None:
    daemon = serve(big)
    loader = Loader(daemon.url, **SMALL_PREFETCH, timeout_s=60)
    raised: list[BaseException] = []

    def read_all() -> None:
        try:
            for _ in loader:
                pass
        except emlio.Error as error:
            raised.append(error)

    daemon.freeze()
    thread = threading.Thread(target=read_all)
    thread.start()
    time.sleep(0.3)
    start = time.monotonic()
    loader.close()
    thread.join(10)
    assert not thread.is_alive()
    assert time.monotonic() - start < 8
    assert isinstance(raised[0], emlio.CancelledError)


def test_threads_take_turns(load: Callable[..., Loader]) -> None:
    batches = iter(load(batch_size=1))
    seen: list[int] = []

    def take() -> None:
        for batch in batches:
            seen.append(int(batch["id"][0]))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(100))


WAITING = """
    import sys, threading
    import emlio
    loader = emlio.Loader(sys.argv[1], batch_size=8, prefetch_mb=1)
    batches = iter(loader)
    next(batches)
    print("reading", flush=True)
    sys.stdin.readline()
    print("going on", flush=True)
    try:
        for _ in batches:
            pass
        print("ended")
    except KeyboardInterrupt:
        print("interrupted at", loader.state_dict()["step"] > 0)
        raise
"""


def test_ctrl_c_ends_a_wait(serve: Serve, big: Path) -> None:
    daemon = serve(big)
    with start_python(WAITING, daemon.url) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "reading\n"
        daemon.freeze()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "going on\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        out, err = process.communicate(timeout=30)
        assert time.monotonic() - start < 5
        assert out == "interrupted at True\n", err
        assert process.returncode == -signal.SIGINT, err
        assert err.rstrip().endswith("KeyboardInterrupt")


def test_a_handler_that_returns_does_not_end_a_wait(serve: Serve, big: Path) -> None:
    daemon = serve(big)
    loader = Loader(daemon.url, **SMALL_PREFETCH, timeout_s=30)
    batches = iter(loader)
    next(batches)
    daemon.freeze()
    states: list[Any] = []

    def handler(*_: object) -> None:
        states.append(loader.state_dict())
        with pytest.raises(emlio.UnsupportedError, match="signal handler"):
            next(batches)
        daemon.thaw()

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        count = 8 + sum(len(batch) for batch in batches)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert count == RECORDS
    assert states[0]["step"] > 0


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "raise SystemExit(0)",
        "loader.close()",
        "del loader, batches",
        "kept = [loader, batches]; kept.append(kept)",
        "threading.Thread(target=read, daemon=True).start()",
        "loader.me = loader; sys.modules['kept'] = loader",
    ],
)
def test_an_exit_with_unread_batches_is_quick_and_quiet(
    serve: Serve, big: Path, ending: str
) -> None:
    daemon = serve(big)
    code = """
        import sys, threading, time
        import emlio
        loader = emlio.Loader(sys.argv[1], batch_size=8)
        batches = iter(loader)
        batch = next(batches)
        view = batch.records[0]
        def read():
            try:
                list(batches)
            except emlio.CancelledError:
                pass
        exec(sys.argv[2])
        print(time.monotonic(), flush=True)
    """
    status, out, err = run_python(code, daemon.url, ending)
    took = time.monotonic() - float(out or "nan") if out else 0
    assert (status, err) == (0, "")
    assert took < 5


def test_an_exception_with_the_iterator_in_its_frame_ends_the_process(
    serve: Serve, big: Path
) -> None:
    code = """
        import sys
        import emlio
        def train():
            batches = iter(emlio.Loader(sys.argv[1], batch_size=8))
            for batch in batches:
                raise RuntimeError("out of memory")
        train()
    """
    status, _, err = run_python(code, serve(big).url)
    assert status == 1
    assert err.rstrip().endswith("RuntimeError: out of memory")


def test_a_forked_child_may_drop_but_not_use_a_loader(serve: Serve, big: Path) -> None:
    code = """
        import gc, os, sys, warnings
        import emlio
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        loader = emlio.Loader(sys.argv[1], batch_size=8)
        batches = iter(loader)
        batch = next(batches)
        view = batch.records[0]
        child = os.fork()
        if child == 0:
            assert view.tobytes() == bytes(1000)
            for use in (lambda: next(batches), lambda: iter(loader), loader.stats):
                try:
                    use()
                    os._exit(2)
                except emlio.UnsupportedError as error:
                    assert "fork" in str(error) and "num_workers=0" in str(error), error
            loader.close()
            del loader, batches, batch, view, use
            gc.collect()
            sys.exit(7)  # through atexit and all destructors
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), sum(map(len, batches)))
    """
    status, out, err = run_python(code, serve(big).url)
    assert (status, err) == (0, "")
    assert out == f"7 {RECORDS - 8}\n"


def test_the_garbage_collector_may_drop_loaders_in_any_thread(load: Callable[..., Loader]) -> None:
    import gc

    threads_before = threading.active_count()
    for _ in range(20):
        loader = load()
        batches = iter(loader)
        next(batches)
        loader.cycle = [loader, batches]  # type: ignore[attr-defined]
        del loader, batches
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    assert threading.active_count() == threads_before


def test_dropped_loaders_leave_no_threads_and_no_descriptors(serve: Serve, hundred: Path) -> None:
    daemon = serve(hundred)

    def threads_and_descriptors() -> tuple[int, int]:
        own = Path("/proc/self")
        return len(list((own / "task").iterdir())), len(list((own / "fd").iterdir()))

    counts = []
    for _ in range(15):
        for source in (daemon.url, hundred):
            loader = Loader(source, batch_size=8)
            next(iter(loader))
            del loader
        counts.append(threads_and_descriptors())
    assert counts[-1] == counts[4]


def test_a_closed_port_is_named(hundred: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = time.monotonic()
    with pytest.raises(emlio.Error, match=f"127.0.0.1:{port}") as raised:
        Loader(f"tcp://127.0.0.1:{port}/data", batch_size=8, timeout_s=2)
    assert time.monotonic() - start < 2 + 5
    assert isinstance(raised.value, ConnectionError | TimeoutError)


def test_an_address_that_never_answers_is_named() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        with pytest.raises(emlio.Error, match=f"127.0.0.1:{port}") as raised:
            Loader(f"tcp://127.0.0.1:{port}/data", batch_size=8, timeout_s=1)
        assert isinstance(raised.value, ConnectionError | TimeoutError)


def test_ctrl_c_ends_connecting() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        code = """
            import sys
            import emlio
            print("connecting", flush=True)
            emlio.Loader(sys.argv[1], batch_size=8, timeout_s=60)
        """
        url = f"tcp://127.0.0.1:{silent.getsockname()[1]}/data"
        with start_python(code, url) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "connecting\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            _, err = process.communicate(timeout=60)
            assert time.monotonic() - start < 5
            assert process.returncode == -signal.SIGINT, err


def test_ctrl_c_ends_indexing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    indexes = tmp_path / "emlio/index"
    for number in range(3000):
        shards.write_shard(tmp_path / f"shard-{number:04}", [b"x"])
    code = """
        import sys
        import emlio
        print("indexing", flush=True)
        emlio.Loader(sys.argv[1] + "/shard-*", batch_size=8)
        print("indexed", flush=True)
    """
    with start_python(code, str(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "indexing\n"
        deadline = time.monotonic() + 30
        while not indexes.exists():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert out == ""
        assert process.returncode == -signal.SIGINT, err
    assert not list(indexes.glob("*.tmp.*"))


def test_a_daemon_that_dies_is_an_error_that_names_it(serve: Serve, big: Path) -> None:
    daemon = serve(big)
    loader = Loader(daemon.url, **SMALL_PREFETCH, timeout_s=20)
    batches = iter(loader)
    next(batches)
    daemon.kill()
    address = daemon.url.removeprefix("tcp://").removesuffix("/data")
    with pytest.raises(emlio.UnavailableError, match=address):
        for _ in batches:
            pass
