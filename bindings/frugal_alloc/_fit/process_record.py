"""What the agent leaves behind of a process, and how the command reads it: a JSON file beside the journal."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import _native
from .._common import shapes
from . import places
from .places import Place

#: Why the agent has ended the program.
STEPS = "steps"

_PATIENCE_SECONDS = 30.0
_EVERY_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class _Written:
    """What the file says."""

    process: int
    rank: int
    program: str
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


@dataclasses.dataclass(frozen=True)
class ProcessRecord(_Written):
    """What the agent leaves behind of a process."""

    journal: Path


def tell_steps(folder: str, process: int, steps: int) -> None:
    """For the progress bar."""
    with contextlib.suppress(OSError):
        Path(folder, f"{process}.steps").write_text(str(steps))


def told_steps(folder: Path) -> int:
    """Of the process that is ahead."""
    told = [0]
    for file in folder.glob("*.steps"):
        with contextlib.suppress(OSError, ValueError):
            told.append(int(file.read_text()))
    return max(told)


def write(
    folder: str,
    library: _native.Library,
    *,
    steps: int,
    is_half: bool,
    ended: str,
    error: str = "",
    advice: Sequence[tuple[str, int, bool]] = (),
) -> None:
    """The record of this process.

    Args:
        ended: STEPS, or "": see ProcessRecord.

    Raises:
        OSError, FrugalAllocError: it cannot be written.
    """
    process = os.getpid()
    journal = Path(folder, f"{process}.journal")
    library.journal_write(str(journal))
    record = {
        "process": process,
        "rank": int(os.environ.get("RANK", "-1")),
        "program": sys.argv[0] if sys.argv else "",
        "steps": steps,
        "is_half": is_half,
        "ended": ended,
        "error": error,
        "advice": list(advice),
        "texts": library.journal_texts(),
        "places": {number: dataclasses.asdict(place) for number, place in places.of(library).items()},
        "counted": _counted(),
        "guesses": _guesses(),
        "not_simulated": _not_simulated(),
    }
    # Under another name first: whoever sees it sees all of it.
    file = Path(folder, f"{process}.json")
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(record))
    temporary.rename(file)


def refuse(folder: str, reason: str) -> None:
    """Says why a process cannot be followed."""
    Path(folder, "refused").write_text(reason)


def refusal(folder: Path) -> str | None:
    file = folder / "refused"
    return file.read_text() if file.exists() else None


def read_all(folder: Path) -> list[ProcessRecord]:
    """In the order of ranks; of processes without one in that of their numbers.

    Raises:
        ValueError: one is damaged; the message is one line.
    """
    found = [_read(file) for file in folder.glob("*.json")]
    return sorted(found, key=lambda record: (record.rank, record.process))


def _read(file: Path) -> ProcessRecord:
    written = shapes.read(_Written, json.loads(file.read_text()))
    return ProcessRecord(**vars(written), journal=file.with_suffix(".journal"))


def await_other_ranks(folder: str, environment: Mapping[str, str]) -> None:
    """Until the ranks of this machine have all left their records; one that goes first would be an error to others."""
    ranks = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    until = time.monotonic() + _PATIENCE_SECONDS
    while len(list(Path(folder).glob("*.json"))) < ranks and time.monotonic() < until:
        time.sleep(_EVERY_SECONDS)


def _counted() -> dict[int, tuple[int, int]]:
    import torch

    found = {}
    for gpu in range(torch.cuda.device_count()):
        figures = torch.cuda.memory_stats(gpu)
        found[gpu] = figures.get("requested_bytes.all.peak", 0), figures.get("reserved_bytes.all.peak", 0)
    return found


def _guesses() -> list[str]:
    """What the simulated GPU has made up, if it has."""
    told = sys.modules.get("frugal_simulated_values.told")
    return told.sentences() if told is not None else []


def _not_simulated() -> list[str]:
    """The functions of CUDA and its libraries that were called and that the simulated machine does not have."""
    try:
        names = ctypes.CDLL("libcuda.so.1").frugal_sim_unsupported_functions
    except (OSError, AttributeError):
        return []
    names.restype = ctypes.c_char_p
    return names().decode().split()
