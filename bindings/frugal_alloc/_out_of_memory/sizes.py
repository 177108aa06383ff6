"""Bytes as the error's first sentence writes them."""

from __future__ import annotations

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(count: float) -> str:
    """ "1.50 GiB", "512 bytes"; negative ones as 0."""
    for unit, name in _UNITS:
        if count > unit:
            return f"{count / unit:.2f} {name}"
    return f"{max(int(count), 0)} bytes"
