"""In a process that is followed: its journal from the import of PyTorch on, and what is sent at its end."""

from __future__ import annotations

import atexit
import os
import sys

from .. import _native
from .._common import installation
from .followed import Sender
from .history_journal import HistoryJournal

Journal = _native.Library | HistoryJournal


def journal_of(allocator: str) -> Journal:
    """Our library's; PyTorch's own allocator is followed without one where there is none for this PyTorch.

    Raises:
        FrugalAllocError: neither is possible.
    """
    try:
        return _native.load()
    except _native.FrugalAllocError:
        if allocator == "frugal" or installation.find_torch().cuda is None:
            raise
        return HistoryJournal()


class ProcessRecorder:
    """Of one process; its children by fork have none."""

    def __init__(self, sender: Sender, journal: Journal) -> None:
        """Begins the journal: whatever CUDA's start needs must be there."""
        self.send = sender.send
        self._process = os.getpid()
        journal.journal_start()
        sys.modules["torch"].cuda._lazy_call(self._cuda_started)
        atexit.register(self.finish)

    @property
    def is_in_child(self) -> bool:
        """Whether this is a child by fork of the process that it follows."""
        return os.getpid() != self._process

    def finish(self) -> None:
        """The process ends."""
        raise NotImplementedError

    def _cuda_started(self) -> None:
        """Now, or before this began."""
        raise NotImplementedError
