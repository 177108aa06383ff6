"""Which line of the user's own a site is told at, how that is written, and the calls that explain it."""

from __future__ import annotations

import bisect
import linecache
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._native.sites import Frame, Site
from .._program import code_lines, users_code
from .._program.code_lines import CodeLine

if TYPE_CHECKING:
    from .._native import Library

#: Of memory that no line of the user's is known for: a library's own thread, or what was made before enable().
NO_LINE = "no line is known"

_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')
# A line that was edited is looked for in its file: in those that are larger it would take too long.
_MOST_LINES = 100_000

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


def code_line(frame: Frame | None, site: Site) -> CodeLine | None:
    """The line and the phase of a site whose line is `frame`; None where neither is known."""
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
    generated = _line_maps()
    for frame in _below_simulation(tuple(frames)):
        if users_code.is_ours(frame.file):
            continue
        if frame.file in generated:
            yield from frames_of_compiled(frame.file, frame.line) or [frame]
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


def frames_of_compiled(file: str, line: int) -> list[Frame]:
    """The calls that a line which torch.compile has generated is for, the innermost first; none if none is known.

    The compiler keeps, for each line of the modules that it writes, the stack trace of the operation that the line is
    for, in the forward as in the backward. Where it knows none, the caller's line is the nearest that is known.
    """
    found = []
    # An outermost "Traceback (most recent call last)" and lines of carets are no frames.
    texts = _trace(file, line).splitlines()
    for text, source in zip(texts, [*texts[1:], ""], strict=False):
        if (match := _FRAME.fullmatch(text)) is not None:
            is_source = _FRAME.fullmatch(source) is None
            found.append(_found_again(match, source.strip() if is_source else ""))
    return [frame for frame in reversed(found) if frame is not None]


def _line_maps() -> dict[str, Any]:
    """Of what torch.compile has written, or loaded, in this process, by file."""
    # Not imported: a program that compiles nothing is not to wait for the compiler.
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    return getattr(cache, "linemaps", None) or {}


def _trace(file: str, line: int) -> str:
    """Of the operation that begins at the line, or at one before it."""
    try:
        starts, traces = _line_maps()[file]
        place = bisect.bisect_right(starts, line)
        trace = traces[place - 1] if place else None
    except (KeyError, ValueError, TypeError, IndexError):  # none, or as another version of the compiler has it
        return ""
    return trace if isinstance(trace, str) else ""


def _found_again(match: re.Match[str], source: str) -> Frame | None:
    """The frame, if its line still reads so or another one of the file alone does.

    What was compiled in an earlier run is loaded from the disk with the lines of that time, though the program may have
    been edited since.
    """
    file, line, function = match["file"], int(match["line"]), match["function"]
    if not source or linecache.getline(file, line).strip() == source:
        return Frame(file, line, function)
    lines = linecache.getlines(file)
    if not 0 < len(lines) <= _MOST_LINES:
        return None
    same = [number for number, text in enumerate(lines, 1) if text.strip() == source]
    return Frame(file, same[0], function) if len(same) == 1 else None
