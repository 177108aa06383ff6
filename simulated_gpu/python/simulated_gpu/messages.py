"""What people are told: on one line, whatever it quotes."""

from __future__ import annotations

_MOST_CHARACTERS = 2000


class Refused(Exception):
    """What was asked for cannot be done. The message is one line that says why and what to do."""


def on_one_line(text: str) -> str:
    """The message, with nothing in it that breaks the line, steers a terminal, or has no end."""
    text = text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def format_bytes(size: int) -> str:
    """As PyTorch writes sizes, but for its "1024.00 MiB", which is 1.00 GiB here."""
    if size < 1024:
        return "1 byte" if size == 1 else f"{size} bytes"
    for unit, shift in (("KiB", 10), ("MiB", 20)):
        if size / (1 << shift) < 1023.995:
            return f"{size / (1 << shift):.2f} {unit}"
    return f"{size / (1 << 30):.2f} GiB"
