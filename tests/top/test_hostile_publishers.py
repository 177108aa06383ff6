"""Whatever listens at a name of ours: top ends in time, shows no bytes that steer a terminal, and believes nobody."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from frugal_alloc._command.top import layout, picture, sockets
from published import listener, name_of

GOOD = {
    "schema": "frugal_alloc.live",
    "version": 1,
    "pid": 1,
    "age_seconds": 3.5,
    "command": ["python", "train.py"],
    "simulated": False,
    "node": "",
    "tracking": True,
    "epochs": 0,
    "gpus": [],
    "verdicts": [],
}
GPU = {
    "gpu": 0,
    "name": "H100",
    "uuid": "GPU-1",
    "total_bytes": 100,
    "free_bytes": 50,
    "limit_bytes": 0,
    "allocated_bytes": 10,
    "reserved_bytes": 30,
    "waste_bytes": 20,
    "peak_allocated_bytes": 20,
    "stitches": 0,
    "out_of_memory_errors": 0,
    "last_out_of_memory": None,
    "asleep_bytes": 0,
}
POOL = {
    "gpu": 0,
    "line": "",
    "captured": True,
    "released": False,
    "reserved_bytes": 1 << 20,
    "allocated_bytes": 0,
    "idle_bytes": 0,
}
VERDICT = {"kind": "leak", "gpu": 0, "bytes_per_epoch": 1, "text": ""}


@contextlib.contextmanager
def publisher(answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """This process publishes; `answer` is given each connection, on a thread."""
    with listener(os.getpid()) as door:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = door.accept()
                    with connection, contextlib.suppress(OSError):
                        answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join()


def says(*texts: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(b"".join(texts))


def seen(patience: float = 30.0) -> sockets.Process | None:
    """What is seen of this process."""
    return next((one for one in sockets.look(patience).processes if one.pid == os.getpid()), None)


def problem(answer: Callable[[socket.socket], None], patience: float = 30.0) -> str:
    with publisher(answer):
        process = seen(patience)
    assert process is not None and process.answer is None
    return process.problem


def changed(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def test_good_answer_is_taken() -> None:
    with publisher(says(changed(gpus=[GPU]), b"\n")):
        process = seen()
    assert process is not None and process.answer is not None
    assert process.answer.gpus[0].reserved_bytes == 30


def test_answer_in_pieces_is_taken() -> None:
    def answer(connection: socket.socket) -> None:
        for byte in changed() + b"\n":
            connection.send(bytes([byte]))

    with publisher(answer):
        process = seen()
    assert process is not None and process.answer is not None


def test_silence_ends_when_patience_does() -> None:
    ended = threading.Event()
    with publisher(lambda _: ended.wait() and None):
        process = seen(0.01)
        ended.set()
    assert process == sockets.Process(os.getpid(), None, "it does not answer")


def test_answer_that_breaks_off_is_none() -> None:
    assert problem(says(changed()[:-10])) == "it does not answer"


def test_answer_without_end_is_cut() -> None:
    def answer(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"x" * 65536)

    assert problem(answer) == "its answer has no end"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"garbage", "its answer is no JSON"),
        (b"\xff\xfe", "its answer is no JSON"),
        (b"[" * 100_000, "its answer is no JSON"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "its answer is no JSON"),
        (b"[]", "its answer is not frugal_alloc's"),
        (b"{}", "its answer is not frugal_alloc's"),
        (changed(version=2), "it answers as another version of frugal_alloc does"),
        (changed(command=["x"] * 2000), "its answer is damaged: command: a list of at most 1024 values is wanted"),
        (changed(command=["a", 1]), "its answer is damaged: command[1]: a text is wanted, not 1"),
        (
            changed(gpus=[{**GPU, "reserved_bytes": -1}]),
            "its answer is damaged: gpus[0].reserved_bytes: a number from 0 on is",
        ),
        (changed(gpus=[{**GPU, "last_out_of_memory": "no"}]), "its answer is damaged: gpus[0].last_out_of_memory: one"),
        (
            changed(pools=[POOL | {"idle_bytes": -1}]),
            "its answer is damaged: pools[0].idle_bytes: a number from 0 on is",
        ),
        (changed(verdicts=[VERDICT | {"kind": "x"}]), "its answer is damaged: verdicts[0].kind: one of leak, suspect"),
    ],
    ids=range(13),
)
def test_what_is_no_answer_is_said_in_a_line(text: bytes, said: str) -> None:
    with pytest.raises(sockets.BadAnswer) as refused:
        sockets.parse(text)
    assert str(refused.value).startswith(said) and str(refused.value).isprintable()


def test_answer_that_is_none_is_the_processs_problem() -> None:
    assert problem(says(b"garbage\n")) == "its answer is no JSON"


def test_nothing_that_steers_a_terminal_is_shown() -> None:
    evil = "\x1b[2J\x07\r\n\t\u202e\x9b31m\x00"
    verdict, pools = VERDICT | {"text": evil}, [POOL | {"line": evil}]
    with publisher(
        says(changed(command=[evil, evil], gpus=[{**GPU, "name": evil}], verdicts=[verdict], pools=pools), b"\n")
    ):
        document = picture.take()
    for line in layout.lines(document):
        assert line.text.isprintable()


def test_who_listens_at_anothers_name_is_not_believed() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other,
        listener(other.pid) as door,
    ):
        assert name_of(other.pid) in sockets._names()
        pids = {process.pid for process in sockets.look().processes}
        assert not pids & {other.pid, os.getpid()}
        door.close()
        other.communicate(b"\n")


def test_names_that_are_not_quite_ours_are_not_asked() -> None:
    with contextlib.ExitStack() as stack:
        for name in ("frugal_alloc/1/x", "frugal_alloc/1", "xfrugal_alloc/1/2", "frugal_alloc/1/2/3", "frugal_alloc"):
            door = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            door.bind(f"\0{name}.{os.getpid()}" if name == "frugal_alloc" else f"\0{name}")
            door.listen()
        assert not [name for name in sockets._names() if name.startswith("frugal_alloc/1")]


def test_many_that_are_silent_take_no_longer_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock that stands still but when one waits, and then goes on by as much as one was ready to wait.
    now = [0.0]
    waits: list[float] = []
    monkeypatch.setattr(sockets.time, "monotonic", lambda: now[0])

    class Selector(sockets.selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[Any]:
            waits.append(timeout or 0.0)
            now[0] += timeout or 0.0
            return []

    monkeypatch.setattr(sockets.selectors, "DefaultSelector", Selector)
    monkeypatch.setattr(sockets, "_is_named", lambda pid, name: True)
    ended = threading.Event()
    with publisher(lambda _: ended.wait() and None), listener(0):
        sockets.look(patience=7.0)
        ended.set()
    assert sum(waits) == pytest.approx(7.0)


def test_foreign_users_processes_are_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with publisher(says(changed(), b"\n")):
        seen_now = sockets.look()
    assert (seen_now.processes, seen_now.foreign >= 1) == ([], True)
    assert "not shown" in " ".join(line.text for line in layout.lines({**EMPTY, "of_other_users": 1}))


EMPTY = {"processes": [], "gpus": [], "of_other_users": 0, "left_out": 0}


def test_answers_fields_are_those_of_the_document() -> None:
    assert {field.name for field in dataclasses.fields(sockets.Gpu)} == set(GPU)
