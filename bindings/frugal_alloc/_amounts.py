"""Amounts as people read them."""

from __future__ import annotations

from ._program import code_lines

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def format_bytes(size: float) -> str:
    """1.25 GiB, 512 MiB, 3 bytes: three digits or what is before the point."""
    magnitude = abs(size)
    for unit, name in _UNITS:
        # What would be rounded to 1024 of a unit is one of the next.
        if magnitude >= unit * (1 if unit == 1 << 10 else 0.9995):
            value = size / unit
            digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
            text = f"{value:,.{digits}f}"
            return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {name}"
    whole = round(size)
    return "1 byte" if whole == 1 else f"{whole} bytes"


def size_text(size: float) -> str:
    """Bytes in the largest unit that keeps them readable: "1.50 GiB"."""
    sign, size = ("-", -size) if size < 0 else ("", size)
    if size < 1024:
        return f"{sign}{size:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{sign}{size:.2f} {unit}"
    return f"{sign}{size / 1024:.2f} TiB"


def format_count(count: int, one: str, many: str | None = None) -> str:
    """1 block, 2,000 blocks."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


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
