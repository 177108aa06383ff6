"""Whatever listens at a name of ours: top ends in time, shows no bytes that steer a terminal, and believes nobody.

What is no answer is refused in one line: tests/bad_input/test_every_reader.py.
"""

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
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.top import layout, picture, sockets
from published import listener, name_of
from top_samples import ANSWER, NOBODY, POOL, VERDICT, gpu

sys.path.append(str(Path(__file__).resolve().parents[1] / "bad_input"))
import hostile

Answer = Callable[[socket.socket], object]


@contextlib.contextmanager
def publisher(answer: Answer) -> Iterator[None]:
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


def asked(answer: Answer, patience: float = 30.0) -> sockets.Process:
    """What is seen of this process where it answers so."""
    with publisher(answer):
        return next(one for one in sockets.look(patience).processes if one.pid == os.getpid())


def line(**changes: Any) -> bytes:
    return json.dumps(ANSWER | changes).encode() + b"\n"


def in_pieces(connection: socket.socket) -> None:
    for byte in line(gpus=[gpu()]):
        connection.send(bytes([byte]))


@pytest.mark.parametrize("answer", [lambda connection: connection.sendall(line(gpus=[gpu()])), in_pieces])
def test_good_answer_is_taken(answer: Answer) -> None:
    taken = asked(answer).answer
    assert taken is not None
    assert dataclasses.asdict(taken.gpus[0]) == gpu()


def without_end(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"x" * 65536)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda connection: connection.sendall(line()[:-10]), "it does not answer"),
        (without_end, "its answer has no end"),
    ],
    ids=["breaks off", "without end"],
)
def test_answer_that_is_none_is_the_processs_problem(answer: Answer, said: str) -> None:
    assert asked(answer) == sockets.Process(os.getpid(), None, said)


def test_silence_ends_when_patience_does() -> None:
    ended = threading.Event()
    with publisher(lambda _: ended.wait()):
        (process,) = (one for one in sockets.look(0.01).processes if one.pid == os.getpid())
        ended.set()
    assert process == sockets.Process(os.getpid(), None, "it does not answer")


def test_nothing_that_steers_a_terminal_is_shown() -> None:
    evil = hostile.STEERING
    parts = {"gpus": [gpu(name=evil)], "verdicts": [VERDICT | {"text": evil}], "pools": [POOL | {"line": evil}]}
    with publisher(lambda connection: connection.sendall(line(command=[evil, evil], **parts))):
        document = picture.take()
    shown = [line.text for line in layout.lines(document)]
    assert all(text.isprintable() for text in shown)
    assert "owned" in "".join(shown)


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
        for name in ("frugal_alloc/1/x", "frugal_alloc/1", "xfrugal_alloc/1/2", "frugal_alloc/1/2/3"):
            door = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            door.bind(f"\0{name}")
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
    with publisher(lambda _: ended.wait()), listener(0):
        sockets.look(patience=7.0)
        ended.set()
    assert sum(waits) == pytest.approx(7.0)


def test_foreign_users_processes_are_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with publisher(lambda connection: connection.sendall(line())):
        seen_now = sockets.look()
    assert (seen_now.processes, seen_now.foreign >= 1) == ([], True)
    assert "not shown" in " ".join(line.text for line in layout.lines({**NOBODY, "of_other_users": 1}))
