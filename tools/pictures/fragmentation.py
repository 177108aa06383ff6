"""Why free memory can be too little in one place, and what a stitch does about it: docs/pictures/fragmentation.svg.

The picture is an illustration, not a measurement.
"""

from __future__ import annotations

import re

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from . import drawing
from .drawing import LIGHT

# One letter for each 2 MiB of a GPU's memory: the tensor there, or "." where it is free.
MEMORY = "aaa..bb.cccc...dd.ee..ff"
REQUEST = 6

_CELL, _PITCH, _LEFT, _HEIGHT = 30, 34, 24, 480
_NAMED = {"tensor": "in use", "free": "free", "new": "the new tensor"}


def picture() -> str:
    return drawing.picture(told()["said"], _HEIGHT, lambda figure, size: _draw(drawing.canvas(figure), size))


def told() -> dict[str, str]:
    return {
        "said": f"{MEMORY.count('.')} of {len(MEMORY)} pieces of GPU memory are free, at most {_longest()} in a row. "
        f"PyTorch's allocator with its default settings cannot place a tensor of {REQUEST} pieces. frugal_alloc maps "
        f"{REQUEST} free pieces side by side at new addresses, and copies nothing."
    }


def _longest() -> int:
    return max(map(len, re.findall(r"\.+", MEMORY)))


def _draw(axes: Axes, size: float) -> None:
    needs = f"A tensor of {REQUEST} pieces: {MEMORY.count('.')} are free, at most {_longest()} in a row."
    _memory(axes, 14, "PyTorch's caching allocator, default settings", [], size)
    drawing.box(axes, _LEFT, 104, REQUEST * _PITCH - 4, _CELL, "wanted")
    _beside(axes, 104, needs, "CUDA out of memory", "bad", size)
    taken = [cell for cell, tensor in enumerate(MEMORY) if tensor == "."][:REQUEST]
    _memory(axes, 208, "frugal_alloc", taken, size)
    for place, cell in enumerate(taken):
        _thread(axes, (_LEFT + cell * _PITCH + _CELL / 2, 286), (_LEFT + place * _PITCH + _CELL / 2, 330))
        drawing.box(axes, _LEFT + place * _PITCH, 330, _CELL, _CELL, "new")
    mapped = "The same free pieces, mapped side by side at new addresses."
    _beside(axes, 330, mapped, "The tensor fits; nothing is copied.", "good", size)
    drawing.legend(axes, _NAMED, _LEFT, "each piece: 2 MiB")


def _memory(axes: Axes, top: float, whose: str, taken: list[int], size: float) -> None:
    """The GPU's memory in a row; the free pieces that are `taken` hold the new tensor."""
    drawing.write(axes, _LEFT, top, whose, weight="bold", size=1.15 * size)
    for cell, tensor in enumerate(MEMORY):
        kind = "new" if cell in taken else "free" if tensor == "." else "tensor"
        drawing.box(axes, _LEFT + cell * _PITCH, top + 44, _CELL, _CELL, kind)


def _beside(axes: Axes, top: float, words: str, outcome: str, kind: str, size: float) -> None:
    """What is to say of the tensor at `top`, at its right, and what comes of it."""
    left = _LEFT + REQUEST * _PITCH + 10
    rows = drawing.wrapped(words, size, drawing.WIDTH - left - 10)
    drawing.write(axes, left, top, rows)
    drawing.write(axes, left, top + 1.35 * size * len(rows.splitlines()), outcome, kind)


def _thread(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    middle = (start[1] + end[1]) / 2
    course = Path([start, (start[0], middle), (end[0], middle), end], [Path.MOVETO, *[Path.CURVE4] * 3])
    axes.add_patch(PathPatch(course, fill=False, ec=LIGHT["good"], lw=1.5))
