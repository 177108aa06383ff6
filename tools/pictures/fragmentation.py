"""Why free memory can be too little in one place, and what a stitch does about it: docs/fragmentation.svg.

The picture is an illustration, not a measurement.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from . import ROOT, drawing

FILE = ROOT / "docs" / "fragmentation.svg"
# One letter for each 2 MiB of a GPU's memory: the tensor there, or "." where it is free.
MEMORY = "aaa..bb.cccc...dd.ee..ff"
REQUEST = 6

CELL, GAP, LEFT, HEIGHT = 30, 4, 20, 488
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


@dataclasses.dataclass(frozen=True)
class _Layout:
    """Sizes of text, and where its parts begin from the top, in pixels."""

    size: float
    title: float
    refused: float
    stitched: float
    # From a title to the memory, from there to the tensor; where mapped, with room for the threads between.
    memory: float
    tensor: float
    mapped: float
    legend: float


_WIDE = _Layout(18, 20, refused=34, stitched=218, memory=18, tensor=56, mapped=92, legend=432)
_NARROW = _Layout(27, 29, refused=34, stitched=222, memory=14, tensor=44, mapped=72, legend=420)


def left(cell: int) -> int:
    return LEFT + cell * (CELL + GAP) + GAP


def box(x: float, y: float, kind: str, cells: int = 1) -> str:
    return drawing.rectangle(x, y, cells * CELL + (cells - 1) * GAP, CELL, kind, 4)


def memory(y: float, taken: list[int]) -> Iterator[str]:
    """The GPU's memory in a row; the free pieces that are `taken` hold the new tensor."""
    for cell, tensor in enumerate(MEMORY):
        yield box(left(cell), y, "new" if cell in taken else "free" if tensor == "." else "used")


def beside(y: float, layout: _Layout, words: str, outcome: str, kind: str) -> Iterator[str]:
    """What is to say of the tensor at `y`, at its right, and what comes of it."""
    x = left(REQUEST) + 10
    said = drawing.wrapped(words, layout.size, drawing.WIDTH - x)
    row = layout.size * drawing.ROW
    yield from drawing.rows(x, y + layout.size * 0.8, said, "", layout.size)
    yield drawing.text(x, y + layout.size * 0.8 + len(said) * row, outcome, kind, size=layout.size)


def refused(layout: _Layout) -> Iterator[str]:
    free = MEMORY.count(".")
    longest = max(map(len, re.findall(r"\.+", MEMORY)))
    yield drawing.text(left(0), layout.refused, "PyTorch's caching allocator", "title", size=layout.title)
    top = layout.refused + layout.memory
    yield from memory(top, [])
    yield box(left(0), top + layout.tensor, "wanted", REQUEST)
    words = f"A tensor of {REQUEST} pieces: {free} are free, at most {longest} in a row."
    yield from beside(top + layout.tensor, layout, words, "CUDA out of memory", "bad")


def stitched(layout: _Layout) -> Iterator[str]:
    taken = [cell for cell, tensor in enumerate(MEMORY) if tensor == "."][:REQUEST]
    yield drawing.text(left(0), layout.stitched, "frugal_alloc", "title", size=layout.title)
    top = layout.stitched + layout.memory
    yield from memory(top, taken)
    start, end = top + CELL + 2, top + layout.mapped
    for place, cell in enumerate(taken):
        above, below = left(cell) + CELL // 2, left(place) + CELL // 2
        bend = (end - start) / 2
        course = f"M{above} {start}C{above} {start + bend} {below} {end - bend} {below} {end}"
        yield drawing.path(course, "map")
        yield box(left(place), end, "new")
    words = "The same free pieces, mapped side by side at new addresses."
    yield from beside(end, layout, words, "The tensor fits; nothing is copied.", "good")


def legend(layout: _Layout) -> Iterator[str]:
    size, y, x = layout.size, layout.legend, float(left(0))
    for kind, words in (("used", "in use"), ("free", "free"), ("new", "the new tensor")):
        yield drawing.rectangle(x, y, size, size, kind, 3)
        yield drawing.text(x + 1.4 * size, y + size * 0.85, words, "note", size=size)
        x += 2.8 * size + drawing.text_width(words, size)
    words = "each piece: 2 MiB of GPU memory"
    if x + drawing.text_width(words, size) > drawing.WIDTH:
        x, y = left(0), y + size * 1.4
    yield drawing.text(x, y + size * 0.85, words, "note", size=size)


def picture() -> str:
    said = (
        "Free memory in separate pieces: PyTorch's caching allocator cannot place a tensor of six pieces although "
        f"{MEMORY.count('.')} are free. frugal_alloc maps six free pieces side by side."
    )
    layers = [
        drawing.layer("wide", [*refused(_WIDE), *stitched(_WIDE), *legend(_WIDE)]),
        drawing.layer("narrow", [*refused(_NARROW), *stitched(_NARROW), *legend(_NARROW)]),
    ]
    return drawing.picture(said, HEIGHT, layers, drawing.style(STYLE, DARK))
