"""Messages for people that quote what somebody gave us, on one line."""

from __future__ import annotations

_MOST_CHARACTERS = 2000


def on_one_line(text: str) -> str:
    """The message, with nothing in it that breaks the line, steers a terminal, or has no end."""
    text = text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
