"""Why free memory can be too little in one place, and what a stitch does about it: docs/fragmentation.svg.

The picture is an illustration, not a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import ROOT, drawing
from .drawing import text

FILE = ROOT / "docs" / "fragmentation.svg"
# One letter for each 2 MiB of a GPU's memory: the tensor there, or "." where it is free.
MEMORY = "aaa..bb.cccc...dd.ee..ff"
REQUEST = 6

CELL, GAP, LEFT, HEIGHT = 30, 4, 20, 352
STYLE = """
.used { fill: #8fa3bf; }
.free { fill: none; stroke: #8b949e; stroke-width: 1.5; stroke-dasharray: 4 3; }
.new { fill: #2da567; }
.wanted { fill: none; stroke: #b42318; stroke-width: 2; }
.map { fill: none; stroke: #2da567; stroke-width: 1.5; }
"""
DARK = """
.used { fill: #566a86; }
.free { stroke: #7d8590; }
.new { fill: #238f57; }
.wanted { stroke: #ff8a80; }
.map { stroke: #3fb950; }
"""


def left(cell: int) -> int:
    return LEFT + cell * (CELL + GAP) + GAP


def box(x: int, y: int, kind: str, cells: int = 1) -> str:
    return drawing.rectangle(x, y, cells * CELL + (cells - 1) * GAP, CELL, kind, 4)


def memory(y: int, taken: list[int]) -> Iterator[str]:
    """The GPU's memory in a row; the free pieces that are `taken` hold the new tensor."""
    for cell, tensor in enumerate(MEMORY):
        yield box(left(cell), y, "new" if cell in taken else "free" if tensor == "." else "used")


def refused() -> Iterator[str]:
    free = MEMORY.count(".")
    longest = max(map(len, re.findall(r"\.+", MEMORY)))
    yield text(left(0), 30, "PyTorch's caching allocator", "title")
    yield from memory(46, [])
    yield box(left(0), 92, "wanted", REQUEST)
    x = left(REQUEST) + 10
    yield text(x, 106, f"A tensor of {REQUEST} pieces: {free} are free, at most {longest} in a row.")
    yield text(x, 126, "CUDA out of memory", "bad")


def stitched() -> Iterator[str]:
    taken = [cell for cell, tensor in enumerate(MEMORY) if tensor == "."][:REQUEST]
    yield text(left(0), 176, "frugal_alloc", "title")
    yield from memory(192, taken)
    for place, cell in enumerate(taken):
        top, bottom = left(cell) + CELL // 2, left(place) + CELL // 2
        yield f'<path d="M{top} 224 C{top} 246 {bottom} 242 {bottom} 266" class="map"/>'
        yield box(left(place), 266, "new")
    x = left(REQUEST) + 10
    yield text(x, 280, "The same free pieces, mapped side by side at new addresses.")
    yield text(x, 300, "The tensor fits; nothing is copied.", "good")


def legend(y: int) -> Iterator[str]:
    for cell, kind, words in ((0, "used", "in use"), (4, "free", "free"), (8, "new", "the new tensor")):
        yield f'<rect x="{left(cell)}" y="{y}" width="16" height="16" rx="3" class="{kind}"/>'
        yield text(left(cell) + 24, y + 13, words, "note")
    yield text(left(14), y + 13, "each piece: 2 MiB of GPU memory", "note")


def picture() -> str:
    said = (
        "Free memory in separate pieces: PyTorch's caching allocator cannot place a tensor of six pieces although "
        f"{MEMORY.count('.')} are free. frugal_alloc maps six free pieces side by side."
    )
    return drawing.picture(said, HEIGHT, [*refused(), *stitched(), *legend(322)], drawing.style(STYLE, DARK))
