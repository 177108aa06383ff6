"""Memory over steps, epochs or requests, as one SVG: lines that keep their value until their next point.

Each line is named where it ends. It is drawn twice, for wide screens and for a phone, where text is larger.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Literal

from frugal_alloc._pages.scale import Tick, round_step, ticks_in

from . import drawing
from .label_places import Box, Places
from .line_courses import course

Kind = Literal["native", "expandable", "ours", "live", "bad", "good"]
HEIGHT = 500
# From the bottom up: what was held lies above what was needed of it, and ours above all.
_ORDER = ("live", "expandable", "native", "good", "bad", "ours")
_EDGE = 16
# A line that ends in the last part of the chart is named beside the chart.
_NEAR_END = 0.93
_CROSS = 7
# Of the chart's height, for each pixel of the text's size.
_LEVEL_ROOM, _TOP_ROOM = 0.0055, 0.002


@dataclasses.dataclass(frozen=True)
class Line:
    """`points` are (x, bytes), by rising x. `kind` decides over colour and dashes: an allocator's, or "bad" and
    "good" for a program before and after it is mended; "live" is a filled area."""

    name: str
    kind: Kind
    points: Sequence[tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Level:
    """A horizontal line over the whole width, such as the GPU's memory, in bytes."""

    name: str
    value: float


@dataclasses.dataclass(frozen=True)
class Mark:
    """A moment at (x, bytes), such as "out of memory", in the colour of the lines of its kind."""

    name: str
    x: float
    value: float
    kind: Kind
    shape: Literal["cross", "dot"] = "cross"


@dataclasses.dataclass(frozen=True)
class LineChart:
    """`said` tells the picture in words, for who does not see it. `x_name` stands below the chart ("training step"),
    `unit` at its left side. Values are bytes."""

    title: str
    said: str
    x_name: str
    unit: Literal["GiB", "MiB", "KiB"]
    lines: Sequence[Line]
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()


@dataclasses.dataclass(frozen=True)
class _Text:
    """Sizes of text in pixels of a picture of 860; `label_width`: of the names beside the chart, at most."""

    layer: Literal["wide", "narrow"]
    size: float
    title: float
    label_width: float


_TEXTS = (_Text("wide", 17, 20, 210), _Text("narrow", 27, 30, 210))


def line_chart(chart: LineChart) -> str:
    """The SVG file's text.

    Raises ValueError if no line has a point.
    """
    if not any(line.points for line in chart.lines):
        raise ValueError(f"{chart.title}: no line has a point")
    layers = [drawing.layer(one.layer, _Drawn(chart, one).parts()) for one in _TEXTS]
    return drawing.picture(f"{chart.title}. {chart.said}", HEIGHT, layers)


class _Drawn:
    """A chart with text of one size."""

    def __init__(self, chart: LineChart, text: _Text) -> None:
        self._chart, self._text = chart, text
        lines = [line for line in chart.lines if line.points]
        self._lines = sorted(lines, key=lambda line: _ORDER.index(line.kind))
        places = [x for line in lines for x, _ in line.points] + [mark.x for mark in chart.marks]
        self._first, self._last = min(places), max(max(places), min(places) + 1e-9)
        most = max(value for line in lines for _, value in line.points)
        most = max(most, *(one.value for one in (*chart.levels, *chart.marks)), 1)
        # Room for the name of a level at the top.
        self._most = most * (1 + text.size * (_LEVEL_ROOM if chart.levels else _TOP_ROOM))
        self._ticks = list(self._value_ticks())
        self._title = drawing.wrapped(chart.title, text.title, drawing.WIDTH - 2 * _EDGE, bold=True)
        self._frame()
        self._courses = [course(line.points, self._x, self._y) for line in self._lines]
        held = zip(self._lines, self._courses, strict=True)
        self._places = Places(self._area, [along.points for line, along in held if line.kind != "live"])

    def _frame(self) -> None:
        """The chart's own area, within what titles, ticks and names need."""
        size = self._text.size
        left = _EDGE + max(drawing.text_width(tick.label, size) for tick in self._ticks) + 8
        outside = [self._rows(line) for line in self._lines if not self._ends_early(line)]
        widest = max((drawing.text_width(row, size, True) for rows in outside for row in rows), default=0)
        top = _EDGE + len(self._title) * drawing.ROW * self._text.title + size * 0.6
        right = drawing.WIDTH - max(widest + 30, size * 1.5) - _EDGE / 2
        self._area = Box(left, top, right - left, HEIGHT - top - 2.9 * size - _EDGE / 2)

    def _x(self, x: float) -> float:
        return self._area.x + self._area.width * (x - self._first) / (self._last - self._first)

    def _y(self, value: float) -> float:
        return self._area.y + self._area.height * (1 - value / self._most)

    def _ends_early(self, line: Line) -> bool:
        return line.points[-1][0] < self._first + _NEAR_END * (self._last - self._first)

    def _rows(self, line: Line) -> list[str]:
        return drawing.wrapped(line.name, self._text.size, self._text.label_width, bold=True)

    def parts(self) -> Iterator[str]:
        for place, row in enumerate(self._title):
            y = _EDGE + self._text.title * (0.85 + drawing.ROW * place)
            yield drawing.text(_EDGE, y, row, "title", size=self._text.title)
        yield from self._axes()
        for line, along in zip(self._lines, self._courses, strict=True):
            if line.kind == "live":
                yield drawing.path(along.area(self._y(0)), "fill live area")
            yield drawing.path(along.line(), f"line {line.kind}")
        for mark in self._chart.marks:
            if mark.shape == "dot":
                yield drawing.dot(self._x(mark.x), self._y(mark.value), _CROSS, f"fill {mark.kind}")
            else:
                yield drawing.cross_path(self._x(mark.x), self._y(mark.value), _CROSS, f"line cross {mark.kind}")
        for level in self._chart.levels:
            yield from self._level(level)
        yield from self._names_beside()
        yield from self._names_inside()

    def _value_ticks(self) -> Iterator[Tick]:
        """Round sizes, those that lie within the chart, and where they stand in percent of its height."""
        ticks, top = ticks_in(self._chart.unit, self._most)
        for tick in ticks:
            percent = 100 * (1 - (1 - tick.percent / 100) * top / self._most)
            if percent >= 0:
                yield Tick(percent, tick.label)

    def _axes(self) -> Iterator[str]:
        area, size = self._area, self._text.size
        for tick in self._ticks:
            y = area.y + area.height * tick.percent / 100
            yield drawing.level_path(area.x, y, area.width, "grid")
            yield drawing.text(area.x - 8, y + size * 0.35, tick.label, "note", "end", size)
        below = area.y + area.height + size * 1.25
        for tick in self._x_ticks():
            yield drawing.text(tick.percent, below, tick.label, "note", "middle", size)
        middle = area.x + area.width / 2
        yield drawing.text(middle, below + size * 1.3, self._chart.x_name, "note", "middle", size)

    def _x_ticks(self) -> Iterator[Tick]:
        """Round figures, and where they stand in pixels."""
        step = round_step(self._last - self._first)
        if all(float(x).is_integer() for line in self._lines for x, _ in line.points):
            step = 2 if step == 2.5 else max(step, 1)
        x = step * math.ceil(self._first / step)
        while x <= self._last + step / 1000:
            yield Tick(self._x(x), f"{x:,.10g}")
            x += step

    def _level(self, level: Level) -> Iterator[str]:
        y, size = self._y(level.value), self._text.size
        yield drawing.level_path(self._area.x, y, self._area.width, "level")
        box = Box(self._area.x + 8, y - size * 1.35, drawing.text_width(level.name, size, True), size * 1.2)
        self._places.take(box)
        yield drawing.text(box.x, y - size * 0.45, level.name, "strong", size=size)

    def _names_beside(self) -> Iterator[str]:
        """Of the lines that reach the chart's end, beside it, with a thread from the line to its name."""
        size = self._text.size
        lines = [line for line in self._lines if not self._ends_early(line)]
        heights = [len(self._rows(line)) * size * drawing.ROW for line in lines]
        ends = [self._y(line.points[-1][1]) for line in lines]
        middles = _spread(ends, heights, self._area.y - size, self._area.y + self._area.height)
        right = self._area.x + self._area.width
        for line, middle, end, height in zip(lines, middles, ends, heights, strict=True):
            yield drawing.path(f"M{right:.1f} {end:.1f}L{right + 18:.1f} {middle:.1f}", f"line thread {line.kind}")
            first = middle - height / 2 + size * 0.92
            yield from drawing.rows(right + 24, first, self._rows(line), f"strong {line.kind}", size)

    def _names_inside(self) -> Iterator[str]:
        """Of lines that end early, and of marks, where they hide least; a mark at a line's end shares its name."""
        marks = list(self._chart.marks)
        for line in self._lines:
            if not self._ends_early(line):
                continue
            x, value = line.points[-1]
            own = [mark for mark in marks if mark.kind == line.kind and mark.x >= x]
            marks = [mark for mark in marks if mark not in own]
            at = (own[0].x, own[0].value) if own else (x, value)
            yield from self._named(*at, [line.name, *(mark.name for mark in own)], line.kind)
        for mark in marks:
            yield from self._named(mark.x, mark.value, [mark.name], mark.kind)

    def _named(self, x: float, value: float, names: list[str], kind: Kind) -> Iterator[str]:
        size = self._text.size
        rows = drawing.wrapped("\n".join(names), size, 12 * size, bold=True)
        width = max(drawing.text_width(row, size, True) for row in rows)
        box = self._places.find(self._x(x), self._y(value), width, len(rows) * size * drawing.ROW, _CROSS + 6)
        if thread := box.thread_from(self._x(x), self._y(value), 3 * _CROSS):
            yield drawing.path(thread, f"line thread {kind}")
        yield from drawing.rows(box.x, box.y + size * 0.92, rows, f"strong {kind}", size)


def _spread(wanted: Sequence[float], heights: Sequence[float], top: float, bottom: float) -> list[float]:
    """Middles near those wanted, so that nothing of such heights overlaps, in the order of those wanted."""
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    middles = list(wanted)
    free = top
    for place in order:
        middles[place] = max(wanted[place], free + heights[place] / 2)
        free = middles[place] + heights[place] / 2
    free = bottom
    for place in reversed(order):
        middles[place] = min(middles[place], free - heights[place] / 2)
        free = middles[place] - heights[place] / 2
    return middles
