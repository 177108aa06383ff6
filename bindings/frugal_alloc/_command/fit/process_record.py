"""What the agent says of a process at its end, and how the command reads it. The journal is a file of its own."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ... import _native
from ..._common import shapes
from ..._native.journal import JournalEntry, entries_in
from . import places
from .places import Place

#: Why the agent has ended the program.
STEPS = "steps"
#: The keys of the messages: how many steps have ended; why the process cannot be followed; all of a ProcessRecord.
STEPS_ENDED, REFUSED, RECORD = "steps_ended", "refused", "record"


@dataclasses.dataclass(frozen=True)
class ProcessRecord:
    process: int
    rank: int
    steps: int
    is_half: bool  # it has entered autocast, or trains parameters of half precision
    ended: str  # STEPS, or "" where the program has ended by itself
    error: str  # of an out-of-memory error that nobody caught; "" for none
    advice: tuple[tuple[str, int, bool], ...]  # that it gave: what to change, the bytes that frees, is it about a line
    texts: tuple[str, ...]  # of marks and labels, by number
    places: Mapping[int, Place]  # by the number of a site
    # By GPU: the most bytes that were requested at a time, and reserved, as PyTorch counts them.
    counted: Mapping[int, tuple[int, int]]
    guesses: tuple[str, ...]
    not_simulated: tuple[str, ...]
    journal: str  # its file

    def entries(self, context_bytes: int = 0) -> Iterator[JournalEntry]:
        """
        Args:
            context_bytes: What the context takes of each GPU, which the simulated machine counts apart.
        """
        for entry in entries_in(Path(self.journal).read_bytes()):
            yield entry if entry.gpu_used < 0 else entry._replace(gpu_used=entry.gpu_used + context_bytes)


def of_this_process(folder: str, library: _native.Library, **known: Any) -> dict[str, Any]:
    """A message with the fields of a ProcessRecord, of which the agent knows some.

    Raises:
        OSError, FrugalAllocError: the journal cannot be written.
    """
    process = os.getpid()
    journal = Path(folder, f"{process}.journal")
    library.journal_write(journal)
    fields = {
        "process": process,
        "rank": int(os.environ.get("RANK", "-1")),
        "texts": library.journal_texts(),
        "places": {number: dataclasses.asdict(place) for number, place in places.of(library).items()},
        "counted": _counted(),
        "guesses": _guesses(),
        "not_simulated": _not_simulated(),
        "journal": str(journal),
    }
    return {RECORD: fields | known}


def read_all(messages: Iterable[Mapping[str, Any]]) -> list[ProcessRecord]:
    """In the order of ranks; of processes without one in that of their numbers.

    Raises:
        ValueError: one is damaged; the message is one line.
    """
    records = [shapes.read(ProcessRecord, message[RECORD]) for message in messages if RECORD in message]
    return sorted(records, key=lambda record: (record.rank, record.process))


def _counted() -> dict[int, tuple[int, int]]:
    import torch

    counted = {}
    for gpu in range(torch.cuda.device_count()):
        figures = torch.cuda.memory_stats(gpu)
        counted[gpu] = figures.get("requested_bytes.all.peak", 0), figures.get("reserved_bytes.all.peak", 0)
    return counted


def _guesses() -> list[str]:
    """What the simulated GPU has made up, if it has."""
    guesses = sys.modules.get("frugal_simulated_values.guesses")
    return guesses.sentences() if guesses is not None else []


def _not_simulated() -> list[str]:
    """The functions of CUDA and its libraries that were called and that the simulated machine does not have."""
    try:
        names = ctypes.CDLL("libcuda.so.1").frugal_sim_unsupported_functions
    except (OSError, AttributeError):
        return []
    names.restype = ctypes.c_char_p
    return names().decode().split()
