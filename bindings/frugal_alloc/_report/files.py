"""Reports as files: written whole or not at all, on demand and as the program ends."""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import Any

from .. import _native


def write(document: dict[str, Any], folder: str) -> str:
    """Writes the document as ``frugal-RANK-PID.json`` and, where pages can be drawn, ``.html`` into a folder.

    Makes the folder. Files of that name, this process's earlier ones, are replaced.

    Returns:
        The path of the page, or of the JSON document where there is no page.

    Raises:
        FrugalAllocError: the folder or a file cannot be written; what was there before is still there.
    """
    rank = document["run"]["rank"] or 0
    stem = os.path.join(folder, f"frugal-{rank}-{document['run']['pid']}")
    try:
        os.makedirs(folder, exist_ok=True)
        write_text(stem + ".json", to_json(document))
        page = to_html(document)
        if page is None:
            return stem + ".json"
        write_text(stem + ".html", page)
    except OSError as error:
        reason = error.strerror or str(error)
        raise _native.FrugalAllocError(f"the report cannot be written to {folder}: {reason}") from None
    return stem + ".html"


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


def write_text(path: str, text: str) -> None:
    """Replaces a file at once: whoever reads it sees the old or the new one, whole.

    Raises:
        OSError: it cannot be written; an old file is left as it was.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def write_at_exit() -> None:
    """Lets the report be written as this process ends, if the setting ``report_dir`` names a folder by then."""
    atexit.register(_at_exit, os.getpid())


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
        from . import document

        built = document.build()
        path = write(built, folder)
        if built["verdicts"]:
            print(f"frugal_alloc: {len(built['verdicts'])} verdicts on this run's memory: {path}", file=sys.stderr)
    except Exception as error:
        print(f"frugal_alloc: no report was written: {error}".split("\n")[0], file=sys.stderr)
