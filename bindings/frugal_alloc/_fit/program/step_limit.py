"""Ends a program that does not train after so many calls of its model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ... import _native

_EVERY_SECONDS = 0.05


class StepLimit:
    """Looks again and again, on a thread: where the program is by then does not matter, since whoever reads the journal
    leaves out what comes after the last call that counts."""

    def __init__(
        self, calls: int, library: _native.Library, trains: Callable[[], bool], leave: Callable[[], None]
    ) -> None:
        self._calls = calls
        self._library = library
        self._trains = trains
        self._leave = leave

    def watch(self) -> None:
        threading.Thread(target=self._watch, name="frugal-alloc fit", daemon=True).start()

    def _watch(self) -> None:
        while not self._trains():
            # One more has begun when the last one that counts has ended.
            if self._library.journal_module_calls() > self._calls:
                self._leave()
            time.sleep(_EVERY_SECONDS)
