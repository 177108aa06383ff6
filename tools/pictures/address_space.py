"""The addresses of a small program before and after a stitch, and the physical pieces at them, as they were.

What is drawn was run on the simulated GPU: tools/pictures/programs/stitch.py, docs/pictures/address_space.json.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any, Literal

from . import drawing, recorded, simulated_run

FILE = recorded.FOLDER / "address_space.svg"
DATA = recorded.FOLDER / "address_space.json"
_PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "stitch.py"
_GPU = "48MiB"
_PAGE = 2 << 20
_MIB = 1 << 20
_COLUMNS, _LEFT, _GAP = 15, 20, 4
_PITCH = (drawing.WIDTH - 2 * _LEFT + _GAP) / _COLUMNS
_LABEL_EVERY = 5  # columns
_STYLE = """
.tensor { fill: #c3cedd; }
.free { fill: none; stroke: #6e7781; stroke-width: 2; stroke-dasharray: 5 4; }
.gone { fill: none; stroke: #c4cad1; stroke-width: 1; }
.new { fill: #8fd6ae; }
.border { stroke: #ffffff; stroke-width: 2; fill: none; }
text.number { stroke: none; }
"""
_DARK = """
.tensor { fill: #37465c; }
.free { stroke: #9198a1; }
.gone { stroke: #3d444d; }
.new { fill: #14603a; }
.border { stroke: #0d1117; }
text.number { stroke: none; }
"""


@dataclasses.dataclass(frozen=True)
class _Block:
    """A block of the strip, in pages; `kind` is its style: "tensor", "free", "new" or "gone"."""

    first: int
    pages: int
    kind: Literal["tensor", "free", "new", "gone"]


def record() -> dict[str, Any]:
    """Runs the program. Addresses count from the lowest, and pieces by their first places: both differ between runs."""
    run = simulated_run.answer(_PROGRAM, memory=_GPU, settings={"FRUGAL_SIM_CONTEXT": "0"})
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


def picture() -> str:
    data = recorded.read(DATA)
    wide, narrow = _Drawn(data, size=18, title=21, cell_height=88), _Drawn(data, size=27, title=30, cell_height=46)
    layers = [drawing.layer("wide", wide.parts()), drawing.layer("narrow", narrow.parts())]
    return drawing.picture(_said(data), max(wide.height, narrow.height), layers, drawing.style(_STYLE, _DARK))


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


def _said(data: dict[str, Any]) -> str:
    gpu = data["gpu"].replace("MiB", " MiB")
    return f"The address space of a program on a full GPU of {gpu}. {' '.join(_facts(data))} Nothing is copied."


class _Drawn:
    """The picture with text and cells of one size, in pixels. Its height is known once it is drawn."""

    def __init__(self, data: dict[str, Any], size: float, title: float, cell_height: float) -> None:
        self._data, self._size, self._title, self._cell_height = data, size, title, cell_height
        self._y = 16.0

    @property
    def height(self) -> float:
        return self._y + 8

    def parts(self) -> Iterator[str]:
        before, after = _facts(self._data)
        yield from self._text("Addresses before and after a stitch", "title", self._title)
        yield from self._text(before, "", self._size)
        yield from self._strip("before")
        yield from self._text(after, "", self._size)
        yield from self._strip("after")
        yield from self._legend()

    def _text(self, words: str, kind: str, size: float) -> Iterator[str]:
        found = drawing.wrapped(words, size, drawing.WIDTH - 2 * _LEFT, kind == "title")
        yield from drawing.rows(_LEFT, self._y + size * 0.95, found, kind, size)
        self._y += len(found) * size * drawing.ROW + size * 0.4

    def _strip(self, state: Literal["before", "after"]) -> Iterator[str]:
        """All addresses in rows of the same length, with the number of the piece at each."""
        blocks = _blocks(self._data, state)
        end = self._data["wanted"][0] + self._data["wanted"][1]
        for block in blocks:
            for page, pages in _row_parts(block):
                yield from self._block(page, pages, block.kind)
        for address, piece in self._data[state]["pieces"]:
            x, y = self._corner(address // _PAGE)
            middle = x + (_PITCH - _GAP) / 2
            base = y + self._cell_height / 2 + self._size * 0.35
            yield drawing.text(middle, base, str(piece), "number", "middle", self._size)
        for page in range(0, end // _PAGE, _LABEL_EVERY):
            x, y = self._corner(page)
            label = f"{page * _PAGE // _MIB} MiB" if page else "0"
            yield drawing.text(x, y + self._cell_height + self._size * 1.1, label, "note", size=self._size)
        self._y += -(-end // _PAGE // _COLUMNS) * self._row_height() + self._size * 0.5

    def _row_height(self) -> float:
        return self._cell_height + self._size * 1.5

    def _corner(self, page: int) -> tuple[float, float]:
        row, column = divmod(page, _COLUMNS)
        return _LEFT + column * _PITCH, self._y + row * self._row_height()

    def _block(self, page: int, pages: int, kind: str) -> Iterator[str]:
        x, y = self._corner(page)
        yield drawing.rectangle(x, y, pages * _PITCH - _GAP, self._cell_height, kind, 5)
        if kind in ("tensor", "new"):
            for place in range(1, pages):
                border = x + place * _PITCH - _GAP / 2
                yield drawing.upright_path(border, y, self._cell_height, "border")

    def _legend(self) -> Iterator[str]:
        size = self._size
        side = size * 0.95
        x = float(_LEFT)
        named = {"tensor": "a tensor", "new": "the new tensor", "free": "free", "gone": "moved away"}
        for kind, words in named.items():
            width = side + 8 + drawing.text_width(words, size) + size
            if x + width - size > drawing.WIDTH - _LEFT:
                x, self._y = _LEFT, self._y + size * 1.4
            yield drawing.rectangle(x, self._y, side, side, kind, 3)
            yield drawing.text(x + side + 8, self._y + size * 0.82, words, "note", size=size)
            x += width
        self._y += size * 1.4
        yield from self._text("Each number is 2 MiB of the GPU's memory.", "note", size)


def _row_parts(block: _Block) -> Iterator[tuple[int, int]]:
    """A block's pages by rows of the strip: the first, and how many."""
    page, left = block.first, block.pages
    while left:
        pages = min(left, _COLUMNS - page % _COLUMNS)
        yield page, pages
        page, left = page + pages, left - pages
