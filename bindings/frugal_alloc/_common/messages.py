"""What people are told: on one line, whatever it quotes; amounts and places as they read them."""

from __future__ import annotations

from collections.abc import Sequence

from .._program import code_lines

_MOST_CHARACTERS = 2000


class Refused(Exception):
    """What was asked for cannot be done. The message is one line that says why and what to do."""


def on_one_line(text: str) -> str:
    """The message, with nothing in it that breaks the line, steers a terminal, or has no end."""
    text = text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def format_bytes(size: float) -> str:
    """In the largest unit of which there is one, GiB at most: 1.50 GiB, 768.00 MiB, 1 byte.

    As PyTorch writes sizes, but for its "1024.00 MiB", which is 1.00 GiB here. allocator/port/format_bytes.h is the
    same in C++; tests/allocator/format_bytes.json holds them together.
    """
    whole = round(size)
    if abs(whole) < 1024:
        return "1 byte" if whole == 1 else f"{whole} bytes"
    for unit in ("KiB", "MiB"):
        size /= 1024
        # What would be rounded to 1024.00 is 1.00 of the next unit.
        if abs(size) < 1023.995:
            return f"{size:.2f} {unit}"
    return f"{size / 1024:.2f} GiB"


def format_count(count: int, one: str, many: str | None = None) -> str:
    """1 block, 2,000 blocks."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def format_columns(rows: Sequence[Sequence[str]], texts: int) -> list[str]:
    """A table's lines; the first `texts` columns are words, the others figures."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:{'<' if number < texts else '>'}{widths[number]}}" for number, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return lines


def share_text(share: float | None) -> str:
    """How much of a leak somebody holds: "95% of it"; "" where that is not known."""
    if share is None:
        return ""
    return "all of it" if share > 0.995 else f"{share:.0%} of it"


def short_path(path: str) -> str:
    """What tells a file apart: from the package's name on where it is installed, else its last two parts."""
    for root in ("/site-packages/", "/dist-packages/"):
        if root in path:
            return path.rpartition(root)[2]
    parts = path.split("/")
    return path if len(parts) <= 3 else "/".join(parts[-2:])


def format_code_line(file: str | None, line: int | None) -> str:
    """train/loop.py:42, or of a notebook "cell [3], line 2"; "" where the file is not known."""
    return code_lines.written(short_path(file), line, shorten=False) if file else ""
