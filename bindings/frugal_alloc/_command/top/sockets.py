"""Finds the processes that publish, asks them all at once, for a bounded time, and brings their answers into form.

Each listens at a name that /proc/net/unix lists (bindings/publishing/publisher.h). Nothing else is looked at, and no
process is asked but those. Who answers is what the kernel says of the socket, not what the answer says: the text is
from another process, and is trusted in nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import selectors
import socket
import struct
import time
from typing import Annotated, NamedTuple

from ..._common import shapes
from ..._common.messages import on_one_line
from ..._report.diagnoses import DIAGNOSES
from ..._report.headline import KIND_NAMES

SCHEMA = "frugal_alloc.live"
VERSION = 1
#: Who has not answered by then does not answer.
PATIENCE_SECONDS = 1.0
# More at a time would take more file descriptors than a process has by default.
_MOST_PROCESSES = 400
_MOST_BYTES = 128 << 10
_NAME = re.compile(r"@frugal_alloc/(\d{1,20})/(\d{1,10})")
_SILENT = "it does not answer"
# Of /proc/net/unix: this socket listens.
_LISTENS = 0x10000
_MOST_TEXT = 2000
_MOST_ROWS = shapes.at_most(1024)

_Figure = Annotated[float, shapes.between(0)]
_Size = Annotated[int, shapes.between(0)]
# With nothing in it that steers a terminal, or that makes it read in another order.
_Text = Annotated[str, lambda text: on_one_line(text[:_MOST_TEXT])]


# --- What a process answers.


class BadAnswer(ValueError):
    """It is no answer of a process that publishes; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU of a process; sizes in bytes."""

    gpu: _Size  # as the process numbers it
    name: _Text
    uuid: _Text
    total_bytes: _Size | None
    free_bytes: _Size | None
    limit_bytes: _Size
    allocated_bytes: _Size
    reserved_bytes: _Size
    waste_bytes: _Size
    peak_allocated_bytes: _Size
    stitches: _Size
    out_of_memory_errors: _Size
    last_out_of_memory: Annotated[str, shapes.among(DIAGNOSES)] | None = None
    asleep_bytes: _Size = 0


@dataclasses.dataclass(frozen=True)
class Pool:
    """A private pool of PyTorch's allocator; sizes in bytes."""

    gpu: _Size
    line: _Text  # where it was made; "": not known
    captured: bool
    released: bool
    reserved_bytes: _Size
    allocated_bytes: _Size
    idle_bytes: _Size


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What leaks or grows."""

    kind: Annotated[str, shapes.among(KIND_NAMES)]
    gpu: _Size
    bytes_per_epoch: _Figure
    text: _Text


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a process tells of itself."""

    age_seconds: _Figure
    command: Annotated[tuple[_Text, ...], _MOST_ROWS]
    simulated: bool
    node: _Text
    tracking: bool
    epochs: _Size
    gpus: Annotated[tuple[Gpu, ...], _MOST_ROWS]
    verdicts: Annotated[tuple[Verdict, ...], _MOST_ROWS]
    pools: Annotated[tuple[Pool, ...], _MOST_ROWS] = ()


def parse(text: bytes) -> Answer:
    """The answer in a line of JSON.

    Raises:
        BadAnswer: it is none, or of a version that is not known.
    """
    try:
        value = json.loads(text.decode(), parse_int=_parse_int)
    except (ValueError, RecursionError):
        raise BadAnswer("its answer is no JSON") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise BadAnswer("its answer is not frugal_alloc's")
    if value.get("version") != VERSION:
        raise BadAnswer("it answers as another version of frugal_alloc does: use the frugal-alloc of its environment")
    try:
        return shapes.read(Answer, value)
    except shapes.Misshapen as error:
        raise BadAnswer(f"its answer is damaged: {error}") from None


def _parse_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("no figure has so many digits")
    return int(digits)


# --- Finding and asking them.


class Process(NamedTuple):
    """A process that publishes."""

    pid: int
    answer: Answer | None
    #: Why there is no answer, for people; "" where there is one.
    problem: str = ""


class Seen(NamedTuple):
    """All that publish in this network namespace."""

    processes: list[Process]
    #: Processes of others, which answer only them.
    foreign: int = 0
    #: Not asked, since there are so many.
    left_out: int = 0


def look(patience: float = PATIENCE_SECONDS) -> Seen:
    """Asks every process that publishes; takes no longer than `patience` and a little."""
    names = _names()
    asked = names[:_MOST_PROCESSES]
    foreign = 0
    processes: dict[int, Process] = {}
    with contextlib.ExitStack() as stack:
        questions: list[_Question] = []
        for name in asked:
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.setblocking(False)
            try:
                questions.append(_Question(_connect(connection, name), connection))
            except PermissionError:
                foreign += 1
            except BlockingIOError:
                # Nobody takes connections: who that is cannot be told but by the name, where it is of this namespace.
                _, namespace, number = name.split("/")
                if f"pid:[{namespace}]" == os.readlink("/proc/self/ns/pid") and _is_named(int(number), name):
                    processes[int(number)] = Process(int(number), None, _SILENT)
            except OSError:
                continue
        _await_answers(questions, time.monotonic() + patience)
    answered = (process for question in questions if (process := question.process()) is not None)
    processes.update({process.pid: process for process in answered})
    return Seen([processes[pid] for pid in sorted(processes)], foreign, len(names) - len(asked))


def _names() -> list[str]:
    """The names at which processes listen."""
    names = set()
    try:
        with open("/proc/net/unix", errors="replace") as table:
            next(table, None)
            for row in table:
                fields = row.split(maxsplit=7)
                if len(fields) < 8 or not int(fields[3], 16) & _LISTENS:
                    continue
                if (found := _NAME.fullmatch(fields[7].rstrip("\n"))) is not None:
                    names.add(found[0][1:])
    except OSError:
        return []
    return sorted(names)


def _is_named(pid: int, name: str) -> bool:
    """Whether the process is the one that the name is of, as its own pid namespace numbers it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            numbers = next((row.split()[1:] for row in status if row.startswith(b"NSpid:")), [b"%d" % pid])
    except OSError:
        return False
    return bool(numbers) and int(numbers[-1]) == int(name.rpartition("/")[2])


def _connect(connection: socket.socket, name: str) -> int:
    """The pid of who listens at the name.

    Raises:
        BlockingIOError: somebody who has no room for one more question.
        PermissionError: another user's process.
        OSError: nobody, or somebody who is not the one that the name says.
    """
    connection.connect(f"\0{name}")
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != os.geteuid() and os.geteuid() != 0:
        raise PermissionError
    if pid <= 0 or not _is_named(pid, name):
        raise ConnectionRefusedError
    return pid


class _Question:
    """One process that is asked."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.connection = connection
        self._text = b""

    def read(self) -> bool:
        """Takes what has come; whether that is all."""
        try:
            part = self.connection.recv(1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        self._text += part
        # The line's end, since a forked child may hold the connection.
        return b"\n" in part or not part or len(self._text) > _MOST_BYTES

    def process(self) -> Process | None:
        line, end, _ = self._text.partition(b"\n")
        if not end:
            if not os.path.exists(f"/proc/{self.pid}"):
                return None  # it has ended meanwhile
            return Process(self.pid, None, "its answer has no end" if len(self._text) > _MOST_BYTES else _SILENT)
        try:
            return Process(self.pid, parse(line))
        except BadAnswer as error:
            return Process(self.pid, None, str(error))


def _await_answers(questions: list[_Question], deadline: float) -> None:
    """Until all are answered or the time is over."""
    with selectors.DefaultSelector() as selector:
        for question in questions:
            selector.register(question.connection, selectors.EVENT_READ, question)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.data.read():
                    selector.unregister(key.fileobj)
