"""Sites as a flame graph: which lines, called from where, hold how much."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from .._common.messages import format_code_line

# A narrower cell, in percent, can be neither read nor hit.
_NARROWEST = 0.15
# Deeper than any stack that is read; a recursion without end in a file must not make a page without end.
_DEEPEST = 60


class _Node:
    __slots__ = ("bytes", "children")

    def __init__(self) -> None:
        self.bytes = 0
        self.children: dict[tuple, _Node] = collections.defaultdict(_Node)


def flame(document: dict[str, Any], column: str, most_cells: int) -> dict[str, Any] | None:
    """What the template draws of what is held now ("bytes") or was at the peak ("peak_bytes"); None where nothing was.

    A cell is one frame: the bytes of all stacks that go through it from the same callers. Its kind is "own", the user's
    code; "library"; "node", of autograd; or "rest", several that are too narrow to be drawn.
    """
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
    cells = [_cell(("all", "all memory in tensors"), 0, 0.0, 100.0, root.bytes, frames)]
    # Breadth first, so that what is left out where there are too many cells is what is deepest.
    level = [(root, 0.0, 100.0)]
    for depth in range(1, _DEEPEST + 1):
        placed = [cell for node, left, width in level for cell in _placed(node, left, width)]
        placed = placed[: most_cells - len(cells)]
        cells += [_cell(key, depth, left, width, node.bytes, frames) for key, node, left, width in placed]
        level = [(node, left, width) for _, node, left, width in placed]
    return {"column": column, "cells": cells, "depth": cells[-1]["depth"] + 1, "total_bytes": root.bytes}


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
    rest, few = _Node(), 0
    for key, child in sorted(node.children.items(), key=lambda item: -item[1].bytes):
        extent = width * child.bytes / node.bytes
        if extent < _NARROWEST:
            rest.bytes += child.bytes
            few += 1
            continue
        yield key, child, left, extent
        left += extent
    if few and (extent := width * rest.bytes / node.bytes) >= _NARROWEST:
        yield ("rest", few), rest, left, extent


def _cell(key: tuple, depth: int, left: float, width: float, size: int, frames: list[dict[str, Any]]) -> dict[str, Any]:
    file, code = "", ""
    if key[0] == "frame":
        frame = frames[key[1]]
        file, code = frame["file"], frame["code"]
        label = f"{frame['function']} {format_code_line(file, frame['line'])}".strip()
        kind = "library" if is_library(file) else "own"
    elif key[0] == "place":
        label, file = format_code_line(key[1], key[2]) or key[3] or "where is not known", key[1] or ""
        kind = "own" if file else "rest"
    else:
        words = {"all": "{}", "node": "{} (backward)", "gpu": "GPU {}", "rest": "{:,} smaller"}
        label, kind = words[key[0]].format(key[1]), "node" if key[0] == "node" else "rest"
    place = {"depth": depth, "left": round(left, 3), "width": round(width, 3)}
    return place | {"label": label, "code": code[:200], "file": file[-300:], "bytes": size, "kind": kind}


def is_library(file: str) -> bool:
    """Whether a file is not the user's own: installed, of Python itself, frugal_alloc's, or no file at all."""
    return any(part in file for part in ("-packages/", "/lib/python3", "/frugal_alloc/_")) or file.startswith("<")
