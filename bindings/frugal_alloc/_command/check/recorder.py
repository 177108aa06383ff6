"""In a process that ``frugal-alloc check`` looks at: what its tests, or all of it, take of the GPU's memory.

It begins once PyTorch has been imported. Nothing that goes wrong here reaches the program: it is written down, and the
command says it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import gc
import os
import sys
from collections.abc import Callable
from typing import Any

from ... import _native
from ..._simulation.followed import order
from ..._simulation.followed.messages import Sender
from ..._tracking import regions
from . import process_names
from .figures import Figures
from .ledger import Account, Block, Ledger
from .lines import Lines

# Those by which memory is had and given back, and waits of the host. How often the rest is called depends on what was
# called first in the process.
CALLS = ("malloc", "free", "create", "release", "map", "unmap", "reserve", "unreserve", "sync")
_YOUNG = 1


class Recorder:
    """Follows the memory of this process, and sends what it is told to end."""

    def __init__(self, sender: Sender, root: str) -> None:
        self.send = sender.send
        self._library = _native.load()
        self._machine = _simulated_machine()
        self._lines = Lines(self._library, root)
        self._ledger = Ledger(self._machine.frugal_sim_memory_used)
        self._read = self._settled = self._cleared = 0
        self._windows: list[Window] = []
        self._library.journal_start()
        # What starts CUDA would pay for all that come after it.
        sys.modules["torch"].cuda._lazy_call(self._start_counting)

    def begin(self) -> Window:
        """From here on what is asked for belongs to one test, or to the process."""
        self.settle()
        return self.open()

    def open(self) -> Window:
        """A window within the one that is open, if any is."""
        self.catch_up()
        window = Window(self, self._ledger, self._lines)
        self._windows.append(window)
        if sys.modules["torch"].cuda.is_initialized():
            window.start_counting()
        return window

    def close(self, window: Window) -> None:
        self._ledger.close(window._account)
        self._windows.remove(window)

    def catch_up(self, frees_workspaces: bool = False) -> None:
        entries = list(self._library.journal_read(self._read))
        self._read += len(entries)
        self._ledger.follow(entries, frees_workspaces)

    def calls(self) -> dict[str, int]:
        return {kind: self._machine.frugal_sim_calls(kind.encode()) for kind in CALLS}

    def collect(self, account: Account) -> None:
        """Lets go of what is garbage, and of what cuBLAS keeps to work in, which is known by that."""
        self.clear_workspaces()
        # Most tests leave nothing, and to look at all objects takes longer than many a test.
        for collect in (lambda: gc.collect(_YOUNG), gc.collect):
            if self._ledger.live(account):
                collect()
                self.catch_up()

    def clear_workspaces(self) -> None:
        self.catch_up()
        if self._read > self._cleared and self._ledger.live():
            regions.clear_workspaces()
            self.catch_up(frees_workspaces=True)
        self._cleared = self._read

    def settle(self) -> None:
        """What was there before is as it would be if nothing had run before, as far as it can be."""
        # Collections begin to count anew, so that garbage made from here on is found at the same moments.
        gc.collect(_YOUNG)
        self.catch_up()
        if self._read > self._settled:
            self.clear_workspaces()
            if self._ledger.slack():
                sys.modules["torch"].cuda.empty_cache()
                self.catch_up()
            self._settled = self._read

    def _start_counting(self) -> None:
        self.catch_up()
        for window in self._windows:
            window.start_counting()


class Window:
    """What is asked for between two moments."""

    def __init__(self, recorder: Recorder, ledger: Ledger, lines: Lines) -> None:
        self._recorder, self._ledger, self._lines = recorder, ledger, lines
        self._account = ledger.open()
        self._is_disturbed = False
        self._slack = 0
        self._before: dict[str, int] | None = None
        self._calls: dict[str, int] | None = None
        self._shared: list[Block] | None = None

    def start_counting(self) -> None:
        """From now on count the driver's calls, and what is taken of the GPU: CUDA has started."""
        self._slack = self._ledger.slack()
        self._ledger.begin_again(self._account)
        self._before, self._calls = self._recorder.calls(), None

    def end_peak(self) -> None:
        """What comes now is no part of the peak; it may be of what is kept."""
        self._recorder.catch_up()
        if self._before is not None and self._calls is None:
            now = self._recorder.calls()
            self._calls = {kind: now[kind] - count for kind, count in self._before.items()}
        self._account.end_peak()

    def shared_end(self) -> None:
        """A fixture that several tests share is about to let go of what it holds: what the test has left there would
        stay if another test came after it. To be called at the first such fixture."""
        if self._shared is None and self._account.blocks:
            self._recorder.collect(self._account)
            self._shared = self._ledger.live(self._account)

    def end_inner(self, inner: Window) -> Figures | None:
        """Ends a window within this one, of something that lives on; None: it asked for no memory of the GPU."""
        figures = inner._end_shared()
        if figures is not None:
            self._is_disturbed = self._account.blocks > 0
            if not self._is_disturbed:
                self._recorder.settle()
                self.start_counting()
        return figures

    def _end_shared(self) -> Figures | None:
        self.end_peak()
        figures = None
        if self._account.blocks:
            self._recorder.collect(self._account)
            # What a test needs is not known here, so there is no telling what of it stays for how long.
            figures = dataclasses.replace(
                self._figures(), gpu=None, waste=None, calls=None, leaked=None, leaks=(), slack=0
            )
            figures = dataclasses.replace(figures, released=figures.peak)
        self._recorder.close(self)
        return figures

    def end(self, keeps: bool) -> Figures | None:
        """None: it asked for no memory of the GPU. `keeps`: what is in use after the end is no leak."""
        self.end_peak()
        took = self._account.blocks > 0
        if took and keeps:
            self._recorder.clear_workspaces()
        elif took:
            self._recorder.collect(self._account)
        figures = self._figures() if took else None
        self._recorder.close(self)
        if figures is None or not keeps:
            return figures
        return dataclasses.replace(figures, leaked=None, leaks=(), released=figures.peak)

    def _figures(self) -> Figures:
        kept = self._ledger.live(self._account)
        leaks = dict.fromkeys((block.site for block in kept), 0)
        for block in kept:
            leaks[block.site] += block.bytes
        result = Figures(None, None, leaked=sum(leaks.values()), leaks=self._lines.of(leaks))
        # Threads take turns as it happens, and what is at the peak with it.
        if any(self._lines.is_of_thread(site) for site in self._account.sites()):
            return result
        peak, waste, sites = self._account.peak()
        stays = [*kept, *(self._shared or ())]
        released = self._account.peak(without=stays)[0] if stays else peak
        result = dataclasses.replace(result, peak=peak, released=released, lines=self._lines.of(sites))
        if self._is_disturbed or self._calls is None:
            return result
        return dataclasses.replace(
            result, gpu=self._account.gpu_peak(), waste=waste, calls=self._calls, slack=self._slack
        )


_recorder: Recorder | None = None
#: Whether tests are told one by one, so that the process as a whole is not.
is_of_tests = False
#: Called once there is a recorder: a test may be the first to import PyTorch.
on_start: Callable[[Recorder], None] | None = None


def recorder() -> Recorder | None:
    """None: PyTorch has not been imported, or it cannot be followed."""
    return _recorder


def start() -> None:
    """Follows this process from now on, as its order says; torch has been imported."""
    global _recorder
    try:
        given = order.given()
        if given["allocator"] == "frugal":
            import frugal_alloc

            frugal_alloc.enable()
        followed = Recorder(Sender(given["folder"]), given["root"])
        followed.send({"torch": sys.modules["torch"].__version__})
        window = followed.begin()
        _recorder = followed
        # Now, since Python forgets the file of a program before it ends.
        name = process_names.name_of_this(given["root"])
        atexit.register(_end_process, followed, window, name, os.getpid())
        if on_start is not None:
            on_start(followed)
    except Exception as error:
        send_failure(error)


def _end_process(followed: Recorder, window: Window, name: str, process: int) -> None:
    if is_of_tests or os.getpid() != process:
        return
    try:
        figures = window.end(keeps=True)
        if figures is not None:
            followed.send({"name": name, "kind": "process", "figures": figures.to_values()})
    except Exception as error:
        send_failure(error)


def send_failure(error: BaseException) -> None:
    with contextlib.suppress(OSError):
        Sender(order.given()["folder"]).send({"failure": f"{type(error).__name__}: {error}"[:1000]})


def _simulated_machine() -> Any:
    machine = ctypes.CDLL("libcuda.so.1")
    machine.frugal_sim_calls.restype = ctypes.c_uint64
    machine.frugal_sim_calls.argtypes = [ctypes.c_char_p]
    machine.frugal_sim_memory_used.restype = ctypes.c_uint64
    machine.frugal_sim_memory_used.argtypes = [ctypes.c_int]
    return machine
