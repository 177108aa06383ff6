"""Messages for people: on one line, whatever they quote, and what a command that is refused is told by."""

from __future__ import annotations

_MOST_CHARACTERS = 2000


class Refused(Exception):
    """What was asked for cannot be done. The message is one line that says why and what to do."""


def on_one_line(text: str) -> str:
    """The message, with nothing in it that breaks the line, steers a terminal, or has no end."""
    text = text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
