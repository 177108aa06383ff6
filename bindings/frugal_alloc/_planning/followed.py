"""Running a program on the simulated GPU with somebody in it who follows its memory, for ``fit`` and ``check``.

The command ``run``s the program in the environment that ``put`` makes. Once PyTorch is imported there,
``_common.startup`` calls the ``start`` of the module that the order in it names. What that finds out it says in
messages: lines of JSON in files of a folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import simulated_gpu
from simulated_gpu import Output

from .._common import startup

#: The variable with the order, in JSON.
ORDER = "FRUGAL_FOLLOW"
#: The variables with the settings of PyTorch's allocator; newer versions read the first.
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_SUFFIX = ".messages"
_LISTEN_EVERY_SECONDS = 0.2

Message = dict[str, Any]


def put(base: Mapping[str, str], follower: str, folder: str, allocator: str, **options: Any) -> dict[str, str]:
    """The environment of a program that is followed.

    Args:
        follower: The module in this package whose ``start`` is called once PyTorch is imported.
        folder: For the messages.
        allocator: "native", "expandable" or "frugal".
    """
    result = dict(base)
    result[ORDER] = json.dumps({"follower": follower, "folder": folder, "allocator": allocator, **options})
    if allocator == "expandable":
        for name in SETTINGS:
            kept = [part for part in result.get(name, "").split(",") if part and "expandable_segments" not in part]
            result[name] = ",".join([*kept, "expandable_segments:True"])
    startup.add("follower", result)
    return result


def order() -> Mapping[str, Any]:
    """That which this process was given, by the names of put()'s arguments."""
    return json.loads(os.environ[ORDER])


def start() -> tuple[Sender, Mapping[str, Any]]:
    """By whom this process is to be followed: enables the allocator if the order says so.

    Raises:
        FrugalAllocError: it cannot be enabled.
    """
    given = order()
    if given["allocator"] == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    return Sender(given["folder"]), given


class Sender:
    """Of a process; a child by fork has a file of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = Path()
        self._process = 0

    def send(self, message: Message) -> None:
        """
        Raises:
            OSError: it cannot be written.
        """
        if self._process != os.getpid():
            self._process = os.getpid()
            self._file = Path(self._folder, f"{secrets.token_hex(4)}-{self._process}{_SUFFIX}")
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(message) + "\n")


class Mailbox:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def new(self) -> list[Message]:
        """What came since the last call. Of a process that is writing, or was killed, half a message is none yet.

        Raises:
            ValueError: one is damaged.
        """
        messages = []
        for path in sorted(Path(self._folder).glob(f"*{_SUFFIX}")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, end, _ = file.read().rpartition(b"\n")
            messages += [json.loads(line) for line in whole.split(b"\n") if line]
            self._read[path] = self._read.get(path, 0) + len(whole) + len(end)
        return messages


class Ended(NamedTuple):
    status: int
    #: A signal that ends programs and came meanwhile, whether or not this one has ended by it.
    signal: int | None
    messages: list[Message]


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    output: Output,
    hear: Callable[[Message], None] | None = None,
) -> Ended:
    """
    Args:
        environment: One of the simulated GPU's, with an order in it.
        folder: That of the order.
        hear: Is called with each message while the program runs, soon after it was sent.

    Raises:
        SimulationError: the program cannot be started.
        ValueError: a message is damaged.
    """
    mailbox, messages, signals = Mailbox(folder), [], []

    def listen() -> None:
        for message in mailbox.new():
            messages.append(message)
            if hear is not None:
                hear(message)

    with _repeated(listen) if hear is not None else contextlib.nullcontext():
        status = simulated_gpu.run_in(command, environment, output, signals.append)
    listen()
    ending = next((number for number in signals if number in simulated_gpu.ENDING_SIGNALS), None)
    return Ended(status, ending, messages)


@contextlib.contextmanager
def _repeated(listen: Callable[[], None]) -> Iterator[None]:
    over = threading.Event()

    def listen_on() -> None:
        # What is damaged is said at the end.
        with contextlib.suppress(ValueError):
            while not over.wait(_LISTEN_EVERY_SECONDS):
                listen()

    # The thread is to leave all signals to the one that waits for the program.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, simulated_gpu.SIGNALS | {signal.SIGCHLD})
    thread = threading.Thread(target=listen_on, daemon=True)
    thread.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield
    finally:
        over.set()
        thread.join()
