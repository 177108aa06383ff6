"""Reports in the forms of files, written whole or not at all: on demand, of an error, and as the program ends."""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import pickle
import stat
import sys
import tempfile
from typing import Any

from .. import _interruptions, _native
from .._common import whole_files
from .._common.messages import format_count

#: The setting's value with which no file is written.
OFF = "off"
# After so many names that others have taken, the folder is given up.
_MOST_NAMES = 100

# The latest document of this process that tells of an error: as the process ends, the error is told again. Plain
# values, which keep nothing alive.
_of_error: dict[str, Any] | None = None
# Made when it is first needed.
_private: str | None = None

# Of blocks, as PyTorch's snapshots name them.
_STATES = {"allocated": "active_allocated", "awaiting": "active_awaiting_free", "free": "inactive"}


def write(document: dict[str, Any], folder: str) -> str:
    """Writes the document as ``frugal-RANK-PID.json`` and, where pages can be drawn, ``.html`` into a folder.

    Makes the folder. Files of that name, this process's earlier ones, are replaced; where the name is taken by anything
    but a file of this user, it gets a number. A document of several ranks is named ``frugal-all-PID``, by the process
    of its first. Only this user may read the files: they have the program's arguments and lines of its source.

    Returns:
        The path of the page, or of the JSON document where there is no page.

    Raises:
        FrugalAllocError: the folder or a file cannot be written; what was there before is still there.
    """
    _remember(document)
    ranks = document.get("ranks")
    rank = "all" if ranks else document["run"]["rank"] or 0
    process = (ranks[0] if ranks else document)["run"]["pid"]
    contents = {".json": to_json(document)}
    # The document is there, and an error may be under way.
    page = _interruptions.attempt(None, to_html, document)
    if page is not None:
        contents[".html"] = page
    try:
        os.makedirs(folder, exist_ok=True)
        stem = _rename_to(os.path.join(folder, f"frugal-{rank}-{process}"), contents)
    except (OSError, ValueError) as error:  # ValueError: no name of a folder can have a zero in it
        reason = getattr(error, "strerror", None) or str(error)
        raise _native.FrugalAllocError(f"the report cannot be written to {folder}: {reason}") from None
    return stem + list(contents)[-1]


def land(document: dict[str, Any], setting: str) -> str | None:
    """Writes the document of an error, which must not fail for it.

    Args:
        document: What :func:`document.build` made.
        setting: ``report_dir``: a folder, "off", or "" for the working directory. Where it cannot be written, a
            private temporary folder takes its place.

    Returns:
        The path to read; None if none was to be written, or none could be.
    """
    if setting == OFF:
        return None
    named = _interruptions.attempt(None, lambda: write(document, os.path.abspath(setting or os.curdir)))
    return named or _interruptions.attempt(None, lambda: write(document, _private_folder()))


def _private_folder() -> str:
    """A temporary folder that only this user can read or write, the same one each time."""
    global _private
    if _private is None or os.path.islink(_private) or not os.access(_private, os.W_OK):
        _private = tempfile.mkdtemp(prefix="frugal-")
    return _private


def _rename_to(stem: str, contents: dict[str, str]) -> str:
    """Writes a text for each suffix, for this user alone; returns the stem that they have got.

    Others may be able to write to the folder, and can guess the names. What they have put there is left as it is.
    """
    with contextlib.ExitStack() as stack:
        made = {
            suffix: stack.enter_context(whole_files.unfinished(stem + suffix, text.encode(), 0o600))
            for suffix, text in contents.items()
        }
        # As the folder's file system sees this user: by a network it may be another.
        owner = os.lstat(made[".json"]).st_uid
        stem = _free_stem(stem, list(contents), owner)
        for suffix, temporary in made.items():
            os.replace(temporary, stem + suffix)
    return stem


def _free_stem(stem: str, suffixes: list[str], owner: int) -> str:
    """The stem, or a numbered one, with which all names are free or those of earlier reports of the owner."""
    for number in range(1, _MOST_NAMES + 1):
        candidate = stem if number == 1 else f"{stem}-{number}"
        if all(_may_replace(candidate + suffix, owner) for suffix in suffixes):
            return candidate
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), stem)


def _may_replace(path: str, owner: int) -> bool:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_uid == owner


def _remember(document: dict[str, Any]) -> None:
    global _of_error
    if document["oom"] is not None and not document["oom"].get("went_on"):
        _of_error = document


def _at_end() -> dict[str, Any]:
    """The document of a process that ends: of the moment at which memory ran out, if it did not get any further."""
    from . import document

    built = document.build()
    error = built["oom"]
    if _of_error is None or error is None or error["went_on"] or error["number"] != _of_error["oom"]["number"]:
        return built
    _of_error["oom"] |= {"errors": error["errors"], "caught": error["caught"]}
    return _of_error


def to_json(document: dict[str, Any]) -> str:
    """The document as JSON, which knows no infinity: no figure of ours is one."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=True) + "\n"


def to_html(document: dict[str, Any]) -> str | None:
    """The document as a page; None where what draws it (jinja2) is not installed."""
    try:
        from . import page
    except ImportError:
        return None
    return page.render(document)


def to_memory_viz(document: dict[str, Any]) -> bytes:
    """The segments and blocks of a document as ``torch.cuda.memory._dump_snapshot`` writes them, which
    pytorch.org/memory_viz and torch.cuda._memory_viz show; no history of allocations."""
    gpus = [segment["gpu"] for segment in document["segments"]]
    snapshot = {
        "segments": [_segment(document, segment) for segment in document["segments"]],
        "device_traces": [[] for _ in range(max(gpus, default=-1) + 1)],
    }
    return pickle.dumps(snapshot, protocol=4)


def _segment(document: dict[str, Any], segment: dict[str, Any]) -> dict[str, Any]:
    blocks = [_block(document, segment["address"], *block) for block in segment["blocks"]]
    allocated = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    awaiting = sum(block["size"] for block in blocks if block["state"] == "active_awaiting_free")
    return {
        "device": segment["gpu"],
        "address": segment["address"],
        "total_size": segment["bytes"],
        "allocated_size": allocated,
        "active_size": allocated + awaiting,
        "requested_size": allocated + awaiting,
        "stream": segment["stream"],
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": segment["mapped"],
        "frames": [],
        "blocks": blocks,
    }


def _block(
    document: dict[str, Any], start: int, offset: int, size: int, state: str, site: int | None
) -> dict[str, Any]:
    stack = [] if site is None or state == "free" else document["sites"][site]["stack"]
    frames = (document["frames"][number] for number in stack)
    return {
        "address": start + offset,
        "size": size,
        "requested_size": size,
        "state": _STATES[state],
        "frames": [{"filename": frame["file"], "line": frame["line"], "name": frame["function"]} for frame in frames],
    }


def write_bytes(path: str, data: bytes) -> None:
    """Writes to a path that the user has named, at once: whoever reads the file sees the old or the new one, whole. A
    link goes on naming its file; what is no file, such as a pipe, is written to.

    Raises:
        OSError: it cannot be written; an old file is left as it was.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    whole_files.write(os.path.realpath(path), data)


def write_at_exit() -> None:
    """Lets the report be written as this process ends, if the setting ``report_dir`` names a folder by then."""
    atexit.register(_at_exit, os.getpid())


def _summary(document: dict[str, Any]) -> str:
    """How many verdicts the report tells, one for each cause, and what was not watched; "" if neither is."""
    from .._tracking.materiality import material_and_small
    from .headline import unwatched

    causes, _ = material_and_small(document["verdicts"])
    count = f"{format_count(len(causes), 'verdict')} on this run's memory" if causes else ""
    return "; ".join(filter(None, (count, unwatched(document["epochs"]))))


def _at_exit(pid: int) -> None:
    from .._tracking import current
    from .._tracking.tracker import is_worker

    # Nothing that goes wrong here may change how the program ends.
    library = _native.loaded()
    if os.getpid() != pid or library is None or current() is None:
        return
    try:
        folder = library.setting("report_dir")
        if folder in ("", OFF) or is_worker() or not library.gpus():
            return
        from . import join

        built = _at_end()
        path = write(built, folder)
        if (joined := join.gather(built)) is not None:
            built, path = joined, write(joined, folder)
        if summary := _summary(built):
            print(f"frugal_alloc: {summary}: {path}", file=sys.stderr)
    except Exception as error:
        _interruptions.pass_on(error)
        print(f"frugal_alloc: no report was written: {error}".split("\n")[0], file=sys.stderr)
