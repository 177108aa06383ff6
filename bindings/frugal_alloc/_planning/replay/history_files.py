"""Files of allocation histories: finds them, and reads each by what it is.

Two recordings are understood: what ``torch.cuda.memory._dump_snapshot`` writes, and a Kineto (Chrome) trace of a
profile with ``profile_memory=True``. Both may start in the middle of a run: what was allocated before is worked out
from what is freed in the recording or still there at its end, and placed first. The third kind of file is a list of
events that some program has made up: bench/generators/README.md describes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..._common import recorded_files
from ..._common.messages import Refused
from . import recordings
from .history import History, Malformed

_PACKED_SUFFIXES = (".pickle.xz", ".json.gz", ".pickle", ".json.xz", ".json")


class HistoryError(Refused):
    """No history can be read from the file; the message names it and says what to do."""


def folders() -> list[Path]:
    """Where histories are found by name: in the installed package, and in a checkout."""
    package = Path(__file__).resolve().parents[2]
    return [package / "histories", package.parent.parent / "bench" / "histories"]


def known_names() -> list[str]:
    names = {
        entry.name.split(".")[0]
        for folder in folders()
        if folder.is_dir()
        for entry in folder.iterdir()
        if entry.name.endswith(_PACKED_SUFFIXES)
    }
    return sorted(names)


def find(name: str) -> Path:
    """The file of that path, or of that name among the project's own histories."""
    if _may_exist(name):
        return Path(name)
    if os.sep not in name:
        for folder in folders():
            for suffix in ("", *_PACKED_SUFFIXES):
                if (folder / (name + suffix)).is_file():
                    return folder / (name + suffix)
    known = ", ".join(known_names()) or "none are here: they lie in bench/histories of a checkout"
    raise HistoryError(f"{name} does not exist, nor is it the name of a history that comes with the project ({known})")


def _may_exist(name: str) -> bool:
    """True where the folder may not be looked into, too: reading the file will say so."""
    try:
        os.stat(name)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def read(path: str | os.PathLike[str]) -> History:
    """Reads a recording of any kind.

    Raises:
        HistoryError: the file is missing, damaged, of another kind, or records no allocation.
    """
    path = Path(path)
    try:
        data = recorded_files.read_bytes(path)
        recording = recorded_files.parse_values(data, path)
        # What is short in a file can be there many times: events take memory for each.
        with recorded_files.bounded_memory(path, len(data)):
            history = _read_recording(recording, path.name)
    except recorded_files.UnreadableFile as error:
        raise HistoryError(str(error)) from None
    except (Malformed, RecursionError) as error:
        raise HistoryError(f"{path}: {str(error) or 'it is nested too deeply'}") from None
    if history is None:
        raise HistoryError(
            f"{path} is no allocation history: expected torch.cuda.memory._dump_snapshot's pickle, a Kineto trace or a "
            "list of events"
        )
    return history


def _read_recording(recording: Any, name: str) -> History | None:
    """None: it is of no kind that we know."""
    keys = recording.keys() if isinstance(recording, dict) else ()
    if "device_traces" in keys:
        return recordings.of_snapshot(recording).history(name)
    if "traceEvents" in keys:
        return recordings.of_trace(recording).history(name)
    return recordings.of_event_list(recording, name) if "frugal_alloc_history" in keys else None
