"""Where in the program a site is."""

from __future__ import annotations

import linecache

from .._native import Library
from .._native.sites import Site
from .._program import place_names
from .suppressions import Place
from .users_lines import of_site

#: Of memory that no line of the user's is known for: a library's own thread, or what was made before enable().
NO_LINE = "no line is known"


def place_of(library: Library, site: Site) -> Place | None:
    """The user's line and the phase; None where neither is known."""
    frame = of_site(library, site)
    if frame is None:
        return Place("", 0, "", site.phase) if site.phase else None
    return Place(frame.file, frame.line, frame.function, site.phase)


def place_text(library: Library, number: int) -> str:
    """A site as "file.py:12 in function", or as well as it is known."""
    site = library.site(number)
    frame = of_site(library, site)
    node = f", in backward by {site.node}" if site.node else ""
    if frame is None:
        return f"phase {site.phase}" if site.phase else f"{NO_LINE}{node}"
    within = "" if frame.function == "<module>" else f" in {frame.function}"
    return f"{place_names.place(frame.file, frame.line, shorten=False)}{within}{node}"


def code_line(file: str, line: int) -> str:
    """The source of a line, without its indentation; "" where it cannot be read."""
    return linecache.getline(file, line).strip()[:200]
