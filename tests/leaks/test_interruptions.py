"""What the program's signal handlers raise while code of ours runs reaches the program; our own failures do not."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc import _interruptions
from frugal_alloc._common import startup
from frugal_alloc._out_of_memory import explain
from frugal_alloc._report import files, join
from frugal_alloc._tracking.tracker import _quietly
from frugal_alloc.integrations._following import Following

SIGNAL = signal.SIGUSR1


class TimeUp(Exception):
    pass


class Value:
    pass


def plain(number: int, frame: Any) -> None:
    raise TimeUp


def lets_go_of_its_arguments(number: int, frame: Any) -> None:
    del number, frame
    raise TimeUp


def takes_itself_away(number: int, frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise TimeUp


def with_more(which: type, number: int, frame: Any) -> None:
    raise which


class Handler:
    def method(self, number: int, frame: Any) -> None:
        raise TimeUp

    def __call__(self, *_: Any) -> None:
        raise TimeUp


HANDLERS: dict[str, Callable] = {
    "function": plain,
    "function that lets go of its arguments": lets_go_of_its_arguments,
    "function that takes itself away": takes_itself_away,
    "any arguments": lambda *_: plain(0, None),
    "from a generator": lambda *_: (_ for _ in ()).throw(TimeUp()),
    "partial": functools.partial(with_more, TimeUp),
    "method": Handler().method,
    "object": Handler(),
}


@contextlib.contextmanager
def handled_by(handler: Any) -> Iterator[None]:
    before = signal.signal(SIGNAL, handler)
    try:
        yield
    finally:
        signal.signal(SIGNAL, before)


def ring(*_: Any, **__: Any) -> None:
    signal.raise_signal(SIGNAL)


def fail(*_: Any, **__: Any) -> None:
    raise ValueError("ours")


class Hooked:
    """As much of the tracker as its hooks need."""

    def __init__(self) -> None:
        self.failure = ""
        self._busy_thread = 0
        self._lock = threading.Lock()

    @_quietly
    def hook(self, work: Callable) -> None:
        work()


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_what_a_handler_raises_in_a_hook_reaches_the_program(handler: Any) -> None:
    hooked = Hooked()
    with handled_by(handler), pytest.raises(TimeUp):
        hooked.hook(ring)
    calls = []
    hooked.hook(lambda: calls.append(1))
    assert (hooked.failure, calls) == ("", [1])


def test_what_fails_in_a_hook_does_not_reach_the_program() -> None:
    hooked = Hooked()
    with handled_by(plain):
        hooked.hook(fail)
    assert hooked.failure == "ValueError: ours"


def end_of_a_training(patch: pytest.MonkeyPatch, work: Callable) -> None:
    patch.setattr("frugal_alloc._native.loaded", lambda: object())
    patch.setattr("frugal_alloc.report", work)
    Following(None, enable=False).finish()


def enabling_at_the_import_of_torch(patch: pytest.MonkeyPatch, work: Callable) -> None:
    patch.setattr("frugal_alloc.enable", work)
    startup._enable()


QUIET: dict[str, Callable[[pytest.MonkeyPatch, Callable], Any]] = {
    "the end of a training": end_of_a_training,
    "enabling at the import of torch": enabling_at_the_import_of_torch,
    "what an error's explanation tries": lambda patch, work: _interruptions.attempt(None, work),
    "a report's files": lambda patch, work: (patch.setattr(files, "write", work), files.land({}, "."))[1],
    "other ranks' reports": lambda patch, work: (
        patch.setattr("torch.distributed.is_available", work),
        join.gather({}),
    )[1],
    "an error's explanation": lambda patch, work: (
        patch.setattr("frugal_alloc._native.loaded", work),
        explain.explain(None),
    )[1],
}


@pytest.mark.parametrize("quiet", QUIET.values(), ids=QUIET)
def test_each_place_that_is_quiet_of_failures_is_not_of_handlers(
    quiet: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Of a report that cannot be written anywhere.
    monkeypatch.setattr(files, "_private", str(tmp_path))
    assert not quiet(monkeypatch, fail)
    with handled_by(plain), pytest.raises(TimeUp):
        quiet(monkeypatch, ring)


def called_by_a_library(work: Callable) -> Any:
    """As the library calls: from C, with frames of Python below and above."""
    return ctypes.CFUNCTYPE(ctypes.c_int)(_interruptions.callback(work, otherwise=7))()


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_what_a_handler_raises_in_a_callback_comes_once_the_library_has_returned(
    handler: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    returned = []
    with handled_by(handler), pytest.raises(TimeUp) as raised:
        returned.append(called_by_a_library(ring))
        for _ in range(1000):
            returned.append(None)
    assert len(returned) <= 2
    assert capfd.readouterr().err == ""
    assert all(entry.name != "quiet" for entry in raised.traceback)
    assert not _interruptions._Pending.waiting


def test_exception_waits_for_the_callbacks_after_it_without_being_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    is_true = _interruptions._Pending.__bool__
    monkeypatch.setattr(_interruptions._Pending, "__bool__", lambda self: asked.append(1) or is_true(self))
    call = ctypes.CFUNCTYPE(ctypes.c_int)

    def long_work() -> int:
        for _ in range(100_000):
            pass
        return 0

    def two_callbacks() -> int:
        # As the library does: both within one call of the program's.
        for work in (ring, long_work):
            call(_interruptions.callback(work, otherwise=0))()
        return len(asked)

    with handled_by(plain), pytest.raises(TimeUp):
        call(_interruptions.callback(two_callbacks, otherwise=0))()
        for _ in range(1000):
            pass
    assert len(asked) < 1000


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interruption_and_exit_come_out_of_a_callback(error: type[BaseException]) -> None:
    with handled_by(functools.partial(with_more, error)), pytest.raises(error):
        called_by_a_library(ring)
        for _ in range(1000):
            pass


def test_what_fails_in_a_callback_is_dropped() -> None:
    assert called_by_a_library(fail) == 7
    for _ in range(1000):
        pass


def test_exception_that_comes_out_of_a_callback_keeps_nothing_of_it() -> None:
    alive = []

    def work() -> None:
        value = Value()
        alive.append(weakref.ref(value))
        ring()

    with handled_by(plain):
        with pytest.raises(TimeUp) as raised:
            called_by_a_library(work)
            for _ in range(1000):
                pass
        gc.collect()
        assert alive[0]() is None, raised.value
