"""What changed by line between two moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .users_lines import text_of

if TYPE_CHECKING:
    from .._native import Library

Usage = Mapping[tuple[int, int], int]


def live_bytes(library: Library) -> dict[tuple[int, int], int]:
    """Bytes in use by (GPU, site)."""
    return {(usage.gpu, usage.site): usage.live_bytes for usage in library.site_usages()}


def by_line(library: Library, before: Usage, after: Usage) -> dict[str, int]:
    """How many bytes more each of the user's lines holds, the largest first; lines that hold less are left out."""
    grown: dict[str, int] = {}
    for key in before.keys() | after.keys():
        text = text_of(library, key[1])
        grown[text] = grown.get(text, 0) + after.get(key, 0) - before.get(key, 0)
    largest = sorted(grown.items(), key=lambda entry: -entry[1])
    return {text: size for text, size in largest if size > 0}
