"""Which line of the user's own a site is told at, how that is written, and the calls that explain it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._native.sites import Frame, Site
from .._program import code_lines, compiled_code, users_code
from .._program.code_lines import CodeLine

if TYPE_CHECKING:
    from .._native import Library

#: Of memory that no line of the user's is known for: a library's own thread, or what was made before enable().
NO_LINE = "no line is known"

_SIMULATION = os.path.join(users_code.PACKAGE, "_simulation", "values", "")


def innermost(frames: Iterable[Frame]) -> Frame | None:
    """The user's innermost line; of compiled code, the one that it was compiled from."""
    return next((frame for frame in as_written(frames) if users_code.is_users(frame.file)), None)


def of_site(library: Library, site: Site) -> Frame | None:
    """The user's line; where a backward allocates, that of the forward; None where none is known."""
    frame = innermost(site.frames)
    if frame is None and site.forward:
        frame = innermost(library.site(site.forward).frames)
    return frame


def told_at(library: Library, site: Site) -> CodeLine | None:
    """The user's line and the phase; None where neither is known."""
    return code_line(of_site(library, site), site)


def code_line(frame: Frame | None, site: Site) -> CodeLine | None:
    """As :func:`told_at`, of a site whose line is `frame`."""
    if frame is None:
        return CodeLine("", 0, "", site.phase) if site.phase else None
    return CodeLine(frame.file, frame.line, frame.function, site.phase)


def text_of(library: Library, number: int) -> str:
    """A site as "file.py:12 in function", or as well as it is known."""
    site = library.site(number)
    frame = of_site(library, site)
    node = f", in backward by {site.node}" if site.node else ""
    if frame is None:
        return f"phase {site.phase}" if site.phase else f"{NO_LINE}{node}"
    within = "" if frame.function == "<module>" else f" in {frame.function}"
    return f"{code_lines.written(frame.file, frame.line, shorten=False)}{within}{node}"


def stack_of(library: Library, site: Site) -> tuple[Frame, ...]:
    """The calls that explain a site, the innermost first; for a backward, those of the forward where it is known."""
    forward = library.site(site.forward).frames if site.forward else ()
    frames = site.frames if not forward or innermost(site.frames) is not None else forward
    return tuple(as_written(frames))


def as_written(frames: Iterable[Frame]) -> Iterable[Frame]:
    """The frames without our own; those of generated code replaced by what they were generated from, if it is known."""
    generated = compiled_code.generated_files()
    for frame in _below_simulation(tuple(frames)):
        if users_code.is_ours(frame.file):
            continue
        if frame.file in generated:
            found = [Frame(*one) for one in compiled_code.frames(frame.file, frame.line)]
            yield from found or [frame]
        else:
            yield frame


def _below_simulation(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Without the calls by which the simulated GPU has an operator carried out, which no real one has."""
    of_simulation = [
        index
        for index, frame in enumerate(frames)
        if frame.function.endswith("__torch_dispatch__") and frame.file.startswith(_SIMULATION)
    ]
    return frames[of_simulation[-1] + 1 :] if of_simulation else frames
