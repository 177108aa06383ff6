"""Reports as files: written whole or not at all, on demand and as the program ends."""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import stat
import sys
from typing import Any

from .. import _interruptions, _native
from .._common import whole_files
from .._common.messages import format_count

# After so many names that others have taken, the folder is given up.
_MOST_NAMES = 100

# The latest document of this process that tells of an error: as the process ends, the error is told again. Plain
# values, which keep nothing alive.
_of_error: dict[str, Any] | None = None


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
    try:
        page = to_html(document)
    except Exception as error:  # the document is there, and an error may be under way
        _interruptions.pass_on(error)
        page = None
    if page is not None:
        contents[".html"] = page
    try:
        os.makedirs(folder, exist_ok=True)
        stem = _land(os.path.join(folder, f"frugal-{rank}-{process}"), contents)
    except (OSError, ValueError) as error:  # ValueError: no name of a folder can have a zero in it
        reason = getattr(error, "strerror", None) or str(error)
        raise _native.FrugalAllocError(f"the report cannot be written to {folder}: {reason}") from None
    return stem + list(contents)[-1]


def _land(stem: str, contents: dict[str, str]) -> str:
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
    _of_error["oom"]["errors"] = error["errors"]
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


def _told_at_exit(document: dict[str, Any]) -> str:
    """How many verdicts the report tells, one for each cause, and what was not watched; "" if neither is."""
    from .._tracking.causes import material_and_small
    from .headline import unwatched

    count = len(material_and_small(document["verdicts"])[0])
    left_out = unwatched(document["epochs"])
    if not count:
        return left_out
    told = f"{format_count(count, 'verdict')} on this run's memory"
    return f"{told}; {left_out}" if left_out else told


def _at_exit(pid: int) -> None:
    from .._tracking import current
    from .._tracking.tracker import is_worker

    # Nothing that goes wrong here may change how the program ends.
    library = _native.loaded()
    if os.getpid() != pid or library is None or current() is None:
        return
    try:
        folder = library.setting("report_dir")
        if folder in ("", "off") or is_worker() or not library.gpus():
            return
        from . import join

        built = _at_end()
        path = write(built, folder)
        if (joined := join.gather(built)) is not None:
            built, path = joined, write(joined, folder)
        if told := _told_at_exit(built):
            print(f"frugal_alloc: {told}: {path}", file=sys.stderr)
    except Exception as error:
        _interruptions.pass_on(error)
        print(f"frugal_alloc: no report was written: {error}".split("\n")[0], file=sys.stderr)
