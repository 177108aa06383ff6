"""The lines of the user's program behind a line that torch.compile has generated.

The compiler keeps, for each line of the modules that it writes, the stack trace of the operation that the line is for,
in the forward as in the backward. Where it knows none, the caller's line is the nearest that is known.
"""

from __future__ import annotations

import bisect
import linecache
import re
import sys
from collections.abc import Container
from typing import Any

_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')
# A line that was edited is looked for in its file: in those that are larger it would take too long.
_MOST_LINES = 100_000


def generated_files() -> Container[str]:
    """What torch.compile has written, or loaded, in this process."""
    return _line_maps()


def frames(file: str, line: int) -> list[tuple[str, int, str]]:
    """File, line and function of the calls that the line is for, the innermost first; none if none is known."""
    found = []
    # An outermost "Traceback (most recent call last)" and lines of carets are no frames.
    texts = _trace(file, line).splitlines()
    for text, source in zip(texts, [*texts[1:], ""], strict=False):
        if (match := _FRAME.fullmatch(text)) is not None:
            is_source = _FRAME.fullmatch(source) is None
            found.append(_found_again(match, source.strip() if is_source else ""))
    return [frame for frame in reversed(found) if frame is not None]


def _line_maps() -> dict[str, Any]:
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


def _found_again(match: re.Match[str], source: str) -> tuple[str, int, str] | None:
    """The frame, if its line still reads so or another one of the file alone does.

    What was compiled in an earlier run is loaded from the disk with the lines of that time, though the program may have
    been edited since.
    """
    file, line, function = match["file"], int(match["line"]), match["function"]
    if not source or linecache.getline(file, line).strip() == source:
        return file, line, function
    lines = linecache.getlines(file)
    if not 0 < len(lines) <= _MOST_LINES:
        return None
    same = [number for number, text in enumerate(lines, 1) if text.strip() == source]
    return (file, same[0], function) if len(same) == 1 else None
