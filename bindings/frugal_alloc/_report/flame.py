"""Sites as a flame graph: which lines, called from where, hold how much."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

from .._common.messages import format_code_line

Column = Literal["bytes", "peak_bytes"]

# A narrower cell can be neither read nor hit.
_NARROWEST = 0.0015
# Deeper than any stack that is read; a recursion without end in a file must not make a page without end.
_DEEPEST = 60


@dataclasses.dataclass
class Cell:
    """One frame of a flame graph: the bytes of all stacks that go through it from the same callers."""

    depth: int
    left: float
    width: float
    label: str
    code: str
    file: str
    bytes: int
    # "own": the user's code; "library"; "node": an autograd node; "rest": several that are too narrow to be drawn.
    kind: str


@dataclasses.dataclass(frozen=True)
class Flame:
    column: Column
    cells: list[Cell]
    depth: int
    total_bytes: int


class _Node:
    __slots__ = ("bytes", "children")

    def __init__(self) -> None:
        self.bytes = 0
        self.children: dict[tuple, _Node] = collections.defaultdict(_Node)


def flame(document: dict[str, Any], column: Column, most_cells: int) -> Flame | None:
    """The graph of what is held now ("bytes") or was at the peak; None where nothing was."""
    root, frames = _Node(), document["frames"]
    several_gpus = len({site["gpu"] for site in document["sites"]}) > 1
    for site in document["sites"]:
        node = root
        node.bytes += site[column]
        for key in _keys(site, frames, several_gpus) if site[column] else ():
            node = node.children[key]
            node.bytes += site[column]
    if not root.bytes:
        return None
    cells = [Cell(0, 0.0, 100.0, "all memory in tensors", "", "", root.bytes, "rest")]
    # Breadth first, so that what is left out where there are too many cells is what is deepest.
    level = [(root, 0.0, 100.0)]
    for depth in range(1, _DEEPEST + 1):
        placed = [cell for node, left, width in level for cell in _placed(node, left, width)]
        placed = placed[: most_cells - len(cells)]
        cells += [_cell(key, depth, left, width, node.bytes, frames) for key, node, left, width in placed]
        level = [(node, left, width) for _, node, left, width in placed]
    return Flame(column, cells, max(cell.depth for cell in cells) + 1, root.bytes)


def _keys(site: dict[str, Any], frames: list[dict[str, Any]], several_gpus: bool) -> Iterator[tuple]:
    """From the outermost caller to what allocates. Library frames tell little to the user and make a deep graph: of
    those below the user's own the innermost stands for all, and those between are left out."""
    if several_gpus:
        yield ("gpu", site["gpu"])
    stack = site["stack"][:_DEEPEST]
    for frame in reversed(stack):
        if not is_library(frames[frame]["file"]) or frame == stack[0]:
            yield ("frame", frame)
    if not site["stack"]:
        yield ("place", site["file"], site["line"], site["function"])
    if site["node"]:
        yield ("node", site["node"])


def _placed(node: _Node, left: float, width: float) -> Iterator[tuple[tuple, _Node, float, float]]:
    """The children side by side, the largest first; those that would be too narrow as one."""
    rest = _Node()
    few = 0
    for key, child in sorted(node.children.items(), key=lambda item: -item[1].bytes):
        extent = width * child.bytes / node.bytes
        if extent < 100 * _NARROWEST:
            rest.bytes += child.bytes
            few += 1
            continue
        yield key, child, left, extent
        left += extent
    if few and (extent := width * rest.bytes / node.bytes) >= 100 * _NARROWEST:
        yield ("rest", few), rest, left, extent


def _cell(key: tuple, depth: int, left: float, width: float, size: int, frames: list[dict[str, Any]]) -> Cell:
    kind, code, file = key[0], "", ""
    if kind == "frame":
        frame = frames[key[1]]
        file, code = frame["file"], frame["code"]
        label = f"{frame['function']} {format_code_line(file, frame['line'])}".strip()
        kind = "library" if is_library(file) else "own"
    elif kind == "place":
        label, file = format_code_line(key[1], key[2]) or key[3] or "where is not known", key[1] or ""
        kind = "own" if key[1] else "rest"
    elif kind == "node":
        label = f"{key[1]} (backward)"
    elif kind == "gpu":
        label, kind = f"GPU {key[1]}", "rest"
    else:
        label = f"{key[1]:,} smaller"
    return Cell(depth, round(left, 3), round(width, 3), label, code[:200], file[-300:], size, kind)


def is_library(file: str) -> bool:
    """Whether a file is not the user's own: installed, of Python itself, frugal_alloc's, or no file at all."""
    return any(part in file for part in ("-packages/", "/lib/python3", "/frugal_alloc/_")) or file.startswith("<")
