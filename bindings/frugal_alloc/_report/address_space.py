"""The address space of a GPU as a strip of rows: which addresses are in use, by which line, and which are free."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterator
from typing import Any

from .._common.messages import format_code_line

COLUMNS = 400
_MOST_ROWS = 16
# Below it a row would show single bytes of a small segment.
_LEAST_BYTES_OF_CELL = 512
# Lines with a colour of their own; all others share one.
_MOST_COLOURS = 7


@dataclasses.dataclass(frozen=True)
class Patch:
    """All cells of one state and line, as the path of an SVG whose unit is a cell. `style` is its CSS class."""

    style: str
    path: str
    label: str
    bytes: int
    blocks: int


@dataclasses.dataclass(frozen=True)
class AddressSpace:
    gpu: int
    rows: int
    patches: list[Patch]
    segments: int
    total_bytes: int
    allocated_bytes: int
    awaiting_bytes: int
    free_bytes: int
    free_pieces: int
    largest_free_bytes: int
    unusable_bytes: int  # free, but in handles that tensors in use share
    cell_bytes: float


def address_spaces(document: dict[str, Any]) -> list[AddressSpace]:
    """One for each GPU of which segments are known, by its number."""
    gpus = sorted({segment["gpu"] for segment in document["segments"]})
    return [space for gpu in gpus if (space := _space(document, gpu))]


def _space(document: dict[str, Any], gpu: int) -> AddressSpace | None:
    """Segments side by side by address; what lies between them is not drawn: addresses cost nothing."""
    segments = sorted((one for one in document["segments"] if one["gpu"] == gpu), key=lambda one: one["address"])
    total = sum(segment["bytes"] for segment in segments)
    if not total:
        return None
    blocks = sorted(_blocks(segments))
    keys = _colours(document, blocks)
    cells = COLUMNS * _MOST_ROWS
    cell_bytes = max(total / cells, _LEAST_BYTES_OF_CELL)
    rows = max(1, min(_MOST_ROWS, -(-int(total / cell_bytes) // COLUMNS)))
    cell_bytes = max(total / (rows * COLUMNS), _LEAST_BYTES_OF_CELL)
    free = [size for _, size, state, _ in blocks if state == "free"]
    by_state = {state: sum(size for _, size, s, _ in blocks if s == state) for state in ("allocated", "awaiting")}
    return AddressSpace(
        gpu=gpu,
        rows=rows,
        patches=_patches(document, blocks, keys, cell_bytes, rows),
        segments=len(segments),
        total_bytes=total,
        allocated_bytes=by_state["allocated"],
        awaiting_bytes=by_state["awaiting"],
        free_bytes=sum(free),
        free_pieces=len(free),
        largest_free_bytes=max(free, default=0),
        unusable_bytes=sum(segment.get("unusable_bytes") or 0 for segment in segments),
        cell_bytes=cell_bytes,
    )


Block = tuple[int, int, str, int]  # where it starts in the strip, bytes, state, site or -1


def _blocks(segments: list[dict[str, Any]]) -> Iterator[Block]:
    start = 0
    for segment in segments:
        for offset, size, state, site in segment["blocks"]:
            # A file can say anything; what does not lie in its segment is not drawn.
            if size and offset + size <= segment["bytes"]:
                yield start + offset, size, state, -1 if site is None else site
        start += segment["bytes"]


def _line(document: dict[str, Any], site: int) -> tuple:
    """What is one colour: all sites of one line."""
    if site < 0:
        return ("", None)
    found = document["sites"][site]
    return (found["file"] or "", found["line"]) if found["file"] else (found["node"] or found["function"], None)


def _colours(document: dict[str, Any], blocks: list[Block]) -> dict[tuple, str]:
    """The classes of the lines that hold most."""
    held: dict[tuple, int] = {}
    for _, size, state, site in blocks:
        if state == "allocated" and site >= 0:
            line = _line(document, site)
            held[line] = held.get(line, 0) + size
    largest = sorted(held, key=lambda line: -held[line])[:_MOST_COLOURS]
    return {line: f"c{number}" for number, line in enumerate(largest)}


def _patches(
    document: dict[str, Any], blocks: list[Block], colours: dict[tuple, str], cell_bytes: float, rows: int
) -> list[Patch]:
    styles: list[tuple[str, str]] = []  # of each block: its class, and what it is called
    totals: dict[tuple[str, str], list[int]] = {}
    for _, size, state, site in blocks:
        line = _line(document, site) if state == "allocated" else None
        style = state if line is None else colours.get(line, "other")
        label = format_code_line(*line) if style.startswith("c") else ""
        styles.append((style, label))
        total = totals.setdefault((style, label), [0, 0])
        total[0] += size
        total[1] += 1
    paths: dict[tuple[str, str], list[str]] = {key: [] for key in totals}
    for key, column, row, width in _runs(blocks, styles, cell_bytes, rows):
        paths[key].append(f"M{column} {row}h{width}v1h-{width}z")
    order = {"other": 98, "awaiting": 99, "free": 100}
    return [
        Patch(style, "".join(paths[style, label]), label, *totals[style, label])
        for style, label in sorted(totals, key=lambda key: (order.get(key[0], 0), key[0]))
    ]


def _runs(
    blocks: list[Block], styles: list[tuple[str, str]], cell_bytes: float, rows: int
) -> Iterator[tuple[tuple[str, str], int, int, int]]:
    """Neighbouring cells of one kind in a row: (kind, column, row, cells). A cell is what most of it is."""
    starts = [block[0] for block in blocks]
    for row in range(rows):
        last, since = None, 0
        for column in range(COLUMNS + 1):
            kind = None
            if column < COLUMNS:
                kind = _kind_of_cell(blocks, starts, styles, (row * COLUMNS + column) * cell_bytes, cell_bytes)
            if kind != last or column == COLUMNS:
                if last is not None:
                    yield last, since, row, column - since
                last, since = kind, column


def _kind_of_cell(
    blocks: list[Block], starts: list[int], styles: list[tuple[str, str]], start: float, cell_bytes: float
) -> tuple[str, str] | None:
    held: dict[tuple[str, str], float] = {}
    number = max(bisect.bisect_right(starts, start) - 1, 0)
    while number < len(blocks) and blocks[number][0] < start + cell_bytes:
        begin, size, _, _ = blocks[number]
        covered = min(begin + size, start + cell_bytes) - max(begin, start)
        if covered > 0:
            held[styles[number]] = held.get(styles[number], 0) + covered
        number += 1
    return max(held, key=held.__getitem__) if held else None
