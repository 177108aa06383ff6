"""The address space of a GPU as a strip of rows: which addresses are in use, by which line, and which are free."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from .._common.messages import format_code_line

COLUMNS = 400
_MOST_ROWS = 16
# Below it a row would show single bytes of a small segment.
_LEAST_BYTES_OF_CELL = 512
# Lines with a colour of their own; all others share one.
_MOST_COLOURS = 7
# Of patches: the lines come first.
_ORDER = {"other": 98, "awaiting": 99, "free": 100}


class _Block(NamedTuple):
    start: int  # in the strip
    bytes: int
    state: str
    line: tuple | None  # that made it, as a file and a number; a node or a function where no file is known


class _Style(NamedTuple):
    """What is drawn alike."""

    css: str  # its class: that of a line, or "other", "awaiting", "free"
    label: str  # the line


def address_spaces(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What the template draws: one for each GPU of which segments are known, by its number."""
    gpus = sorted({segment["gpu"] for segment in document["segments"]})
    return [space for gpu in gpus if (space := _space(document, gpu))]


def _space(document: dict[str, Any], gpu: int) -> dict[str, Any] | None:
    """Segments side by side by address; what lies between them is not drawn: addresses cost nothing."""
    segments = [segment for segment in document["segments"] if segment["gpu"] == gpu]
    segments.sort(key=lambda segment: segment["address"])
    total = sum(segment["bytes"] for segment in segments)
    if not total:
        return None
    blocks = list(_blocks(document, segments))
    cell_bytes = max(total / (COLUMNS * _MOST_ROWS), _LEAST_BYTES_OF_CELL)
    rows = max(1, min(_MOST_ROWS, -(-int(total / cell_bytes) // COLUMNS)))
    cell_bytes = max(total / (rows * COLUMNS), _LEAST_BYTES_OF_CELL)
    free = [block.bytes for block in blocks if block.state == "free"]
    held = {
        f"{state}_bytes": sum(block.bytes for block in blocks if block.state == state)
        for state in ("allocated", "awaiting", "free")
    }
    return held | {
        "gpu": gpu,
        "rows": rows,
        "patches": _patches(blocks, cell_bytes, rows),
        "segments": len(segments),
        "total_bytes": total,
        "free_pieces": len(free),
        "largest_free_bytes": max(free, default=0),
        # Free, but in handles that tensors in use share.
        "unusable_bytes": sum(segment["unusable_bytes"] for segment in segments),
    }


def _blocks(document: dict[str, Any], segments: list[dict[str, Any]]) -> Iterator[_Block]:
    start = 0
    for segment in segments:
        for offset, size, state, number in segment["blocks"]:
            site = None if number is None else document["sites"][number]
            line = None
            if site is not None:
                line = (site["file"], site["line"]) if site["file"] else (site["node"] or site["function"], None)
            # A file can say anything; what does not lie in its segment is not drawn.
            if size and offset + size <= segment["bytes"]:
                yield _Block(start + offset, size, state, line)
        start += segment["bytes"]


def _patches(blocks: list[_Block], cell_bytes: float, rows: int) -> list[dict[str, Any]]:
    """All cells of one style, as the path of an SVG whose unit is a cell."""
    held: collections.Counter[tuple] = collections.Counter()
    for block in blocks:
        if block.state == "allocated" and block.line is not None:
            held[block.line] += block.bytes
    colours = {
        line: _Style(f"c{n}", format_code_line(*line)) for n, (line, _) in enumerate(held.most_common(_MOST_COLOURS))
    }
    styled: dict[_Style, list[_Block]] = {}
    for block in blocks:
        is_allocated = block.state == "allocated"
        style = colours.get(block.line, _Style("other", "")) if is_allocated else _Style(block.state, "")
        styled.setdefault(style, []).append(block)
    paths = _paths(styled, cell_bytes, rows)
    return [
        {"style": style.css, "path": paths[style], "label": style.label, "blocks": len(alike)}
        | {"bytes": sum(block.bytes for block in alike)}
        for style, alike in sorted(styled.items(), key=lambda item: (_ORDER.get(item[0].css, 0), item[0].css))
    ]


def _paths(styled: dict[_Style, list[_Block]], cell_bytes: float, rows: int) -> dict[_Style, str]:
    """By style, its runs of cells. A cell is what most of it is."""
    cells: list[collections.Counter[_Style]] = [collections.Counter() for _ in range(rows * COLUMNS)]
    for style, blocks in styled.items():
        for block in blocks:
            end = block.start + block.bytes
            for number in range(int(block.start / cell_bytes), min(int(end / cell_bytes) + 1, len(cells))):
                covered = min(end, (number + 1) * cell_bytes) - max(block.start, number * cell_bytes)
                if covered > 0:
                    cells[number][style] += covered
    paths = dict.fromkeys(styled, "")
    for row in range(rows):
        column = 0
        kinds = (max(cell, key=cell.get) if cell else None for cell in cells[row * COLUMNS : (row + 1) * COLUMNS])
        for style, run in itertools.groupby(kinds):
            width = len(list(run))
            if style is not None:
                paths[style] += f"M{column} {row}h{width}v1h-{width}z"
            column += width
    return paths
