"""Draws the documents' diagrams, which the page of a repository draws from the same text with Mermaid.

Each is drawn twice, from left to right for a desk and downwards for a phone, in the page's own colours. Of Mermaid's
language it knows what the documents use: `flowchart LR` with nodes `name["text<br>text"]` and arrows `-->`.
"""

from __future__ import annotations

import dataclasses
import html
import itertools
import re
from typing import Literal

_LETTER, _ROW, _PADDING = 7.7, 20, 14
_BETWEEN_LAYERS, _BETWEEN_NODES, _MARGIN, _ARROW = 46, 26, 8, 9
_NODE = re.compile(r'(\w+)(?:\["([^"]+)"\])?')

Direction = Literal["right", "down"]


class NotDrawn(ValueError):
    """The message names the line that is none of what is known here."""


@dataclasses.dataclass
class _Node:
    """A box; or a place of an arrow that goes past a layer, without a text."""

    rows: list[str]
    layer: int = 0
    # Along the layers and across them, of the middle.
    along: float = 0
    across: float = 0

    def size(self, direction: Direction) -> tuple[float, float]:
        """Along and across."""
        width = max((len(row) * _LETTER + 2 * _PADDING for row in self.rows), default=0)
        height = len(self.rows) * _ROW + _PADDING if self.rows else 0
        return (width, height) if direction == "right" else (height, width)


@dataclasses.dataclass
class _Chart:
    nodes: dict[str, _Node]
    arrows: list[tuple[str, str]]


def figure(source: str) -> str:
    """The diagram as HTML."""
    drawn = "".join(_svg(_parse(source), direction) for direction in ("right", "down"))
    return f'<figure class="flowchart">{drawn}</figure>'


def _parse(source: str) -> _Chart:
    lines = [line.strip() for line in source.strip().split("\n")]
    if lines[0] != "flowchart LR":
        raise NotDrawn(f"tools/site draws `flowchart LR` only, not: {lines[0]}")
    chart = _Chart({}, [])
    for line in lines[1:]:
        found = [_NODE.fullmatch(part.strip()) for part in line.split("-->")]
        if not all(found):
            raise NotDrawn(f"tools/site cannot draw this line of a diagram: {line}")
        names = [one[1] for one in found]
        for one in found:
            node = chart.nodes.setdefault(one[1], _Node([one[1]]))
            if one[2]:
                node.rows = re.split("<br/?>", one[2])
        chart.arrows += itertools.pairwise(names)
    return chart


def _svg(chart: _Chart, direction: Direction) -> str:
    said = "; ".join(f"{' '.join(chart.nodes[a].rows)} → {' '.join(chart.nodes[b].rows)}" for a, b in chart.arrows)
    ways = _lay_out(chart, direction)
    boxes = {name: node for name, node in chart.nodes.items() if node.rows}
    # An arrow's place beside a box needs room, too.
    sizes = [(node, *node.size(direction)) for node in chart.nodes.values()]
    ends = [(node.along + along / 2, node.across + across / 2) for node, along, across in sizes]
    along, across = (max(end[place] for end in ends) + _MARGIN for place in (0, 1))
    width, height = (along, across) if direction == "right" else (across, along)
    parts = [_arrow([chart.nodes[name] for name in way], direction) for way in ways]
    parts += [_box(node, direction) for node in boxes.values()]
    return (
        f'<svg class="{direction}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="{html.escape(said)}">{"".join(parts)}</svg>'
    )


def _lay_out(chart: _Chart, direction: Direction) -> list[list[str]]:
    """Gives the nodes their places; returns each arrow's way by names of nodes."""
    for _ in chart.nodes:
        for start, end in chart.arrows:
            chart.nodes[end].layer = max(chart.nodes[end].layer, chart.nodes[start].layer + 1)
    ways = [list(_way(chart, start, end)) for start, end in chart.arrows]
    layers = [
        [name for name, node in chart.nodes.items() if node.layer == layer]
        for layer in range(max(node.layer for node in chart.nodes.values()) + 1)
    ]
    before = {name: [a for way in ways for a, b in itertools.pairwise(way) if b == name] for name in chart.nodes}
    along = float(_MARGIN)
    for names in layers:
        rank = {name: place for layer in layers for place, name in enumerate(layer)}
        names.sort(key=lambda name: sum(rank[a] for a in before[name]) / max(1, len(before[name])))
        depth = max(chart.nodes[name].size(direction)[0] for name in names)
        for name in names:
            chart.nodes[name].along = along + depth / 2
        along += depth + _BETWEEN_LAYERS
    extents = [sum(chart.nodes[name].size(direction)[1] + _BETWEEN_NODES for name in names) for names in layers]
    for names, extent in zip(layers, extents, strict=True):
        across = _MARGIN + (max(extents) - extent) / 2
        for name in names:
            size = chart.nodes[name].size(direction)[1]
            chart.nodes[name].across = across + size / 2
            across += size + _BETWEEN_NODES
    return ways


def _way(chart: _Chart, start: str, end: str) -> list[str]:
    """Through a place in each layer between the two, so that the arrow passes beside the boxes there."""
    between = []
    for layer in range(chart.nodes[start].layer + 1, chart.nodes[end].layer):
        name = f"{start} {end} {layer}"
        chart.nodes[name] = _Node([], layer)
        between.append(name)
    return [start, *between, end]


def _arrow(way: list[_Node], direction: Direction) -> str:
    first, last = way[0], way[-1]
    points = [(first.along + first.size(direction)[0] / 2, first.across)]
    points += [(node.along, node.across) for node in way[1:-1]]
    points.append((last.along - last.size(direction)[0] / 2 - _ARROW, last.across))
    course = "M" + _point(*points[0], direction)
    for (along, across), (next_along, next_across) in itertools.pairwise(points):
        middle = (along + next_along) / 2
        bends = [(middle, across), (middle, next_across), (next_along, next_across)]
        course += "C" + " ".join(_point(*bend, direction) for bend in bends)
    tip, side = points[-1], 4.5
    corners = [(tip[0], tip[1] - side), (tip[0] + _ARROW, tip[1]), (tip[0], tip[1] + side)]
    head = " ".join(_point(*corner, direction) for corner in corners)
    return f'<path class="arrow" d="{course}"/><polygon points="{head}"/>'


def _box(node: _Node, direction: Direction) -> str:
    along, across = node.size(direction)
    width, height = (along, across) if direction == "right" else (across, along)
    x, y = (node.along, node.across) if direction == "right" else (node.across, node.along)
    top = y - (len(node.rows) - 1) * _ROW / 2 + 5
    rows = "".join(
        f'<text x="{x:.1f}" y="{top + place * _ROW:.1f}"{"" if place else " class=first"}>{html.escape(row)}</text>'
        for place, row in enumerate(node.rows)
    )
    box = f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'
    return box + rows


def _point(along: float, across: float, direction: Direction) -> str:
    x, y = (along, across) if direction == "right" else (across, along)
    return f"{x:.1f},{y:.1f}"
