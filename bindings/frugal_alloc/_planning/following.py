"""Runs a program that somebody follows (``followed``), and hears what that says meanwhile."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from simulated_gpu import Output, run_in
from simulated_gpu.launcher import ENDING_SIGNALS, SIGNALS

from .followed import Mailbox, Message

_LISTEN_EVERY_SECONDS = 0.2


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
        status = run_in(command, environment, output, signals.append)
    listen()
    ending = next((number for number in signals if number in ENDING_SIGNALS), None)
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS | {signal.SIGCHLD})
    thread = threading.Thread(target=listen_on, daemon=True)
    thread.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield
    finally:
        over.set()
        thread.join()
