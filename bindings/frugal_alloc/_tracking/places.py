"""Where in the program a site is."""

from __future__ import annotations

import linecache

from .._native import Library
from .._sites import Frame, Site
from .suppressions import Place


def user_frame(library: Library, site: Site) -> Frame | None:
    """The user's line of a site; where a backward allocates, that of the forward; None where there is none."""
    if site.forward:
        forward = library.site(site.forward)
        if forward.user >= 0:
            return forward.frames[forward.user]
    return site.frames[site.user] if site.user >= 0 else None


def stack_of(library: Library, site: Site) -> tuple[Frame, ...]:
    """The stack that explains a site: for a backward, that of the forward where it is known."""
    return library.site(site.forward).frames if site.forward else site.frames


def place_of(library: Library, site: Site) -> Place | None:
    """The user's line and the phase; None where neither is known."""
    frame = user_frame(library, site)
    if frame is None:
        return Place("", 0, "", site.phase) if site.phase else None
    return Place(frame.file, frame.line, frame.function, site.phase)


def place_text(library: Library, number: int) -> str:
    """A site as "file.py:12 in function", or as well as it is known."""
    site = library.site(number)
    frame = user_frame(library, site)
    if frame is None:
        return f"phase {site.phase}" if site.phase else "code without a line of Python's"
    within = "" if frame.function == "<module>" else f" in {frame.function}"
    node = f", in backward by {site.node}" if site.node else ""
    return f"{frame.file}:{frame.line}{within}{node}"


def code_line(file: str, line: int) -> str:
    """The source of a line, without its indentation; "" where it cannot be read."""
    return linecache.getline(file, line).strip()[:200]
