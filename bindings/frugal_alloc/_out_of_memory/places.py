"""Lines of the program that ask for memory and hold it, by what the library recorded of each site."""

from __future__ import annotations

import linecache
from typing import Any, NamedTuple

from .._program import place_names
from .._program.users_code import LIBRARYS, owner
from .._tracking import users_lines
from .running import RunningFrame

_MOST_CODE = 60


class Place(NamedTuple):
    """A line of the program. `node`: in its backward, the autograd node that asks, and the line is the forward's."""

    file: str
    line: int
    function: str
    phase: str = ""
    node: str = ""

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    @property
    def short(self) -> str:
        """ "train.py:88", with "backward of" where it is."""
        if not self.line:
            return f"backward, by {self.node}"
        where = place_names.place(self.file, self.line)
        return f"backward of {where}" if self.node else where


class Holder(NamedTuple):
    """A line whose tensors live."""

    place: Place
    bytes: int
    blocks: int


def shorten(code: str, limit: int = _MOST_CODE) -> str:
    return code if len(code) <= limit else code[: limit - 3] + "..."


def of_site(library: Any, number: int) -> Place | None:
    """The user's line of a site: in backward, of the forward that made the node. None: no line is known."""
    if number <= 0:
        return None
    site = library.site(number)
    frame = users_lines.of_site(library, site)
    if frame is None and not site.node:
        # A program that is installed as a package has no other.
        frame = next((one for one in site.frames if owner(one.file) == LIBRARYS), None)
        return None if frame is None else Place(frame.file, frame.line, frame.function, site.phase)
    if frame is None:
        return Place(f"<{site.node}>", 0, "", site.phase, site.node)
    return Place(frame.file, frame.line, frame.function, site.phase, site.node)


def of_frames(frames: list[RunningFrame]) -> Place | None:
    """The innermost line of the user's that runs."""
    for frame in frames:
        if frame.is_users:
            return Place(frame.file, frame.line, frame.function)
    return None


def holders(library: Any, gpu: int) -> list[Holder]:
    """The lines that hold memory, most first; one entry for each line, forward and backward apart."""
    lines: dict[tuple, Holder] = {}
    for usage in library.site_usages():
        place = of_site(library, usage.site) if usage.gpu == gpu and usage.live_bytes > 0 else None
        if place is None:
            continue
        before = lines.get(key_of(place), Holder(place, 0, 0))
        lines[key_of(place)] = before._replace(
            bytes=before.bytes + usage.live_bytes, blocks=before.blocks + usage.blocks
        )
    return sorted(lines.values(), key=lambda holder: -holder.bytes)


def key_of(place: Place) -> tuple:
    """The same for places that are told as one."""
    return place.file, place.line, bool(place.node)
