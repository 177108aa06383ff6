"""One thing to change, with what it brings: what every finder of this room returns."""

from __future__ import annotations

from typing import NamedTuple

# Less is not worth a change to a program.
LEAST_BYTES = 1 << 20


class Advice(NamedTuple):
    """The names are those of a report's "advice"."""

    text: str
    file: str | None
    line: int | None
    bytes: int  # that it frees
