"""The addresses of a small program before and after a stitch, and the physical pieces at them, as they were.

What is drawn was run on the simulated GPU: tools/pictures/programs/stitch.py, docs/pictures/address_space.json.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterator
from typing import Any, Literal

from matplotlib.axes import Axes

from . import boxes, drawing, simulated_run
from .drawing import LIGHT

_PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "stitch.py"
_GPU = "48MiB"
_PAGE = 2 << 20
_MIB = 1 << 20
_HEIGHT = 640
_COLUMNS, _LEFT, _GAP = 15, 20, 4
_PITCH = (drawing.WIDTH - 2 * _LEFT + _GAP) / _COLUMNS
_LABEL_EVERY = 5  # columns
_NAMED = {"tensor": "a tensor", "new": "the new tensor", "free": "free", "gone": "moved away"}


@dataclasses.dataclass(frozen=True)
class _Block:
    """A block of the strip, in pages; `kind` is its style: "tensor", "free", "new" or "gone"."""

    first: int
    pages: int
    kind: Literal["tensor", "free", "new", "gone"]


def record() -> dict[str, Any]:
    """Runs the program. Addresses count from the lowest, and pieces by their first places: both differ between runs."""
    (found,) = simulated_run.completed(_PROGRAM, [()], ("--memory", _GPU), settings={"FRUGAL_SIM_CONTEXT": "0"})
    run = json.loads(found["said"])
    lowest = min(address for address, _ in run["before"]["pieces"])
    numbers = {piece: number for number, (_, piece) in enumerate(run["before"]["pieces"], 1)}

    def state(found: dict[str, Any]) -> dict[str, Any]:
        blocks = [[address - lowest, size, name] for address, size, name in found.pop("blocks")]
        pieces = [[address - lowest, numbers.get(piece)] for address, piece in found.pop("pieces")]
        return {"blocks": blocks, "pieces": pieces, **found}

    wanted, size = run["wanted"]
    return {
        "gpu": _GPU,
        "before": state(run["before"]),
        "wanted": [wanted - lowest, size],
        "after": state(run["after"]),
    }


def picture(data: dict[str, Any]) -> str:
    return drawing.picture(told(data)["said"], _HEIGHT, lambda figure, size: _draw(data, boxes.canvas(figure), size))


def _blocks(data: dict[str, Any], state: Literal["before", "after"]) -> list[_Block]:
    """By address. After the stitch, addresses that had memory before and have none now count as "gone"."""
    kinds = {"active_allocated": "tensor", "inactive": "free"}
    found = [
        _Block(address // _PAGE, size // _PAGE, "new" if [address, size] == data["wanted"] else kinds[name])
        for address, size, name in data[state]["blocks"]
    ]
    there = {block.first for block in found}
    if state == "after":
        before = _blocks(data, "before")
        found += [_Block(one.first, one.pages, "gone") for one in before if one.first not in there]
    return sorted(found, key=lambda block: block.first)


def _facts(data: dict[str, Any]) -> tuple[str, str]:
    free = [size for _, size, state in data["before"]["blocks"] if state == "inactive"]
    start, size = data["wanted"]
    taken = [str(piece) for address, piece in data["after"]["pieces"] if address >= start]
    maps = data["after"]["driver_map_calls"] - data["before"]["driver_map_calls"]
    before = (
        f"Before: {sum(free) // _MIB} MiB are free, at most {max(free) // _MIB} in a row. "
        f"Wanted: a tensor of {size // _MIB} MiB."
    )
    after = f"After: {maps} map calls have put pieces {', '.join(taken[:-1])} and {taken[-1]} side by side."
    return before, after


def told(data: dict[str, Any]) -> dict[str, str]:
    gpu = data["gpu"].replace("MiB", " MiB")
    said = f"The address space of a program on a full GPU of {gpu}. {' '.join(_facts(data))} Nothing is copied."
    return {"said": said}


def _draw(data: dict[str, Any], axes: Axes, size: float) -> None:
    cell = 80 if size < 20 else 42
    boxes.write(axes, _LEFT, 14, "Addresses before and after a stitch", weight="bold", size=1.15 * size)
    top = 14 + 2 * size
    for state, told in zip(("before", "after"), _facts(data), strict=True):
        words = drawing.wrapped(told, size)
        boxes.write(axes, _LEFT, top, words)
        top += 1.4 * size * len(words.splitlines()) + 6
        top += _strip(data, state, axes, top, cell, size)
    boxes.legend(axes, _NAMED, _LEFT, "each number: 2 MiB")


def _strip(
    data: dict[str, Any], state: Literal["before", "after"], axes: Axes, top: float, cell: float, size: float
) -> float:
    """All addresses in rows of the same length, with the number of the piece at each; returns their height."""
    pages = sum(data["wanted"]) // _PAGE
    row = cell + 1.6 * size

    def corner(page: int) -> tuple[float, float]:
        return _LEFT + page % _COLUMNS * _PITCH, top + page // _COLUMNS * row

    for block in _blocks(data, state):
        for page, count in _row_parts(block):
            x, y = corner(page)
            boxes.box(axes, x, y, count * _PITCH - _GAP, cell, block.kind)
            if block.kind in ("tensor", "new"):
                borders = [x + place * _PITCH - _GAP / 2 for place in range(1, count)]
                axes.vlines(borders, y, y + cell, LIGHT["background"], lw=2)
    for address, piece in data[state]["pieces"]:
        x, y = corner(address // _PAGE)
        boxes.write(axes, x + (_PITCH - _GAP) / 2, y + cell / 2, str(piece), ha="center", va="center_baseline")
    for page in range(0, pages, _LABEL_EVERY):
        x, y = corner(page)
        boxes.write(axes, x, y + cell + 3, f"{page * _PAGE // _MIB} MiB" if page else "0", "note")
    return -(-pages // _COLUMNS) * row + 0.3 * size


def _row_parts(block: _Block) -> Iterator[tuple[int, int]]:
    """A block's pages by rows of the strip: the first, and how many."""
    page, left = block.first, block.pages
    while left:
        pages = min(left, _COLUMNS - page % _COLUMNS)
        yield page, pages
        page, left = page + pages, left - pages
