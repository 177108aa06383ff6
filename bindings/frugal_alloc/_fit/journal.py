"""The journal of a process, as the agent has left it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .._native.journal import JournalEntry, entries_in


def read(file: Path, context_bytes: int) -> Iterator[JournalEntry]:
    """
    Args:
        context_bytes: What the context takes of each GPU, which the simulated machine counts apart.
    """
    for entry in entries_in(file.read_bytes()):
        yield entry if entry.gpu_used < 0 else entry._replace(gpu_used=entry.gpu_used + context_bytes)
