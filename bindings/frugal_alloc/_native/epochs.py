"""The library's functions about epochs, and the leaks that it finds at their ends; see bindings/c_api/c_api.h."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _interruptions
from .._program import uncompiled
from .sites import SiteFunctions


class Finding(NamedTuple):
    """A line of the program that leaks, grows, or is suspected to leak."""

    kind: str  # "leak", "suspect" or "growing"
    gpu: int
    site: int  # the one of the line's that grows most
    bytes: int  # kept from past epochs, without those of the first two; of "growing": in use
    blocks: int
    epochs: int  # that the bytes are from
    bytes_per_epoch: float
    confidence: float  # that it grows at all, from 0 to 1
    largest_block: int


# Called with the interpreter's lock.
LISTENER = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
SCHEDULE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class EpochFunctions(SiteFunctions):
    """Where epochs end, and what has grown from one to the next."""

    _listeners: tuple[Any, ...] = ()

    def epoch_end(self) -> None:
        self.follow_path()
        self._check(self._library.frugal_epoch_end())

    def set_epoch_listener(self, listen: Callable[[], None]) -> None:
        """`listen` is called soon after calls of modules have ended an epoch, in the main thread, between two of its
        instructions. Where the main thread does not run Python meanwhile, some ends are told as one."""

        def call(_: Any) -> int:
            listen()
            return 0

        # It may come in the midst of a compiled function.
        called = uncompiled.uncompiled(_interruptions.callback(call, otherwise=0), calls_ours_only=True)
        listener = LISTENER(called)
        schedule = ctypes.cast(ctypes.pythonapi.Py_AddPendingCall, SCHEDULE)
        self._library.frugal_set_epoch_listener(schedule, listener)
        # One that was set before may be scheduled still.
        self._listeners = (*self._listeners, listener, schedule)

    def findings(self) -> list[Finding]:
        """What leaks, as of the latest end of an epoch: the worst first."""
        return [Finding(**finding) for finding in self._answer(self._library.frugal_findings())]
