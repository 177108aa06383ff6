"""Lines of the program that ask for memory and hold it, by what the library recorded of each site."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._program.code_lines import CodeLine
from .._program.users_code import LIBRARYS, owner
from .._tracking import users_lines
from .running import RunningFrame

_MOST_CODE = 60


class HoldingLine(NamedTuple):
    """A line whose tensors live."""

    code_line: CodeLine
    bytes: int
    blocks: int


def shorten(code: str, limit: int = _MOST_CODE) -> str:
    return code if len(code) <= limit else code[: limit - 3] + "..."


def of_site(library: Any, number: int) -> CodeLine | None:
    """The user's line of a site: in backward, of the forward that made the node. None: no line is known."""
    if number <= 0:
        return None
    site = library.site(number)
    frame = users_lines.of_site(library, site)
    if frame is None and not site.node:
        # A program that is installed as a package has no other.
        frame = next((one for one in site.frames if owner(one.file) == LIBRARYS), None)
        return None if frame is None else CodeLine(frame.file, frame.line, frame.function, site.phase)
    if frame is None:
        return CodeLine(f"<{site.node}>", 0, "", site.phase, site.node)
    return CodeLine(frame.file, frame.line, frame.function, site.phase, site.node)


def of_frames(frames: list[RunningFrame]) -> CodeLine | None:
    """The innermost line of the user's that runs."""
    for frame in frames:
        if frame.is_users:
            return CodeLine(frame.file, frame.line, frame.function)
    return None


def by_size(library: Any, gpu: int) -> list[HoldingLine]:
    """The lines that hold memory, most first; one entry for each line, forward and backward apart."""
    lines: dict[tuple, HoldingLine] = {}
    for usage in library.site_usages():
        code_line = of_site(library, usage.site) if usage.gpu == gpu and usage.live_bytes > 0 else None
        if code_line is None:
            continue
        before = lines.get(key_of(code_line), HoldingLine(code_line, 0, 0))
        lines[key_of(code_line)] = before._replace(
            bytes=before.bytes + usage.live_bytes, blocks=before.blocks + usage.blocks
        )
    return sorted(lines.values(), key=lambda one: -one.bytes)


def key_of(code_line: CodeLine) -> tuple:
    """The same for lines that are told as one."""
    return code_line.file, code_line.line, bool(code_line.node)
