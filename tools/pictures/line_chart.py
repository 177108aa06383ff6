"""Memory over steps, epochs or requests, as one SVG: lines that keep their value until their next point."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import blended_transform_factory

from . import drawing
from .drawing import LIGHT

Kind = Literal["native", "expandable", "ours", "live", "bad", "good"]
HEIGHT = 540
# From the bottom up: what was held lies above what was needed of it, and ours above all.
_ORDER = ("live", "expandable", "native", "good", "bad", "ours")
_DASHES = {"native": (0, (3.6, 1.6)), "bad": (0, (3.6, 1.6)), "expandable": (0, (1, 1.4))}
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}


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
    """`x_name` stands below the chart ("training step"), `unit` at its left side. Values are bytes."""

    title: str
    x_name: str
    unit: Literal["GiB", "MiB", "KiB"]
    lines: Sequence[Line]
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()


def line_chart(chart: LineChart, said: str) -> str:
    """The SVG file's text; `said` tells the picture in words, for who does not see it.

    Raises ValueError if no line has a point.
    """
    if not any(line.points for line in chart.lines):
        raise ValueError(f"{chart.title}: no line has a point")
    return drawing.picture(f"{chart.title}. {said}", HEIGHT, lambda figure, size: _draw(chart, figure, size))


def _draw(chart: LineChart, figure: Figure, size: float) -> None:
    figure.set_layout_engine("constrained", w_pad=0.16, h_pad=0.12)
    figure.suptitle(drawing.wrapped(chart.title, 1.15 * size), x=0.02, ha="left", weight="bold", size=1.15 * size)
    axes = figure.subplots()
    unit = _UNITS[chart.unit]
    for line in sorted(chart.lines, key=lambda line: _ORDER.index(line.kind)):
        _line(axes, line, unit)
    for mark in chart.marks:
        _mark(axes, mark, unit, is_shared=[one.name for one in chart.marks].count(mark.name) > 1)
    points = [value for line in chart.lines for _, value in line.points]
    most = max(*points, *(one.value for one in (*chart.levels, *chart.marks)), 1) / unit
    # Room for the name of a level at the top.
    axes.set_ylim(0, most * (1 + 0.008 * size if chart.levels else 1.04))
    for level in chart.levels:
        axes.axhline(level.value / unit, color=LIGHT["ink"], lw=2, ls=(0, (1, 2.5)))
        place = (0, level.value / unit)
        axes.annotate(level.name, place, (4, 9), ("axes fraction", "data"), "offset points", weight="bold")
    axes.set_xlabel(chart.x_name)
    xs = [x for line in chart.lines for x, _ in line.points]
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=all(float(x).is_integer() for x in xs)))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} {chart.unit}" if value else "0")
    _legend(axes, size)


def _mark(axes: Axes, mark: Mark, unit: int, is_shared: bool) -> None:
    """What befalls several lines has no line's colour."""
    marker, edge = ("x", 3.5) if mark.shape == "cross" else ("o", 0)
    look = {"color": LIGHT["ink" if is_shared else mark.kind], "markersize": 13, "markeredgewidth": edge}
    axes.plot([mark.x], [mark.value / unit], marker, label=mark.name, clip_on=False, zorder=9, **look)


def _legend(axes: Axes, size: float) -> None:
    """Above the chart, in the colours of the lines; marks of one name are named once."""
    columns = 3 if size < 20 else 2
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = [drawing.wrapped(name, size, drawing.WIDTH / columns - 2.6 * size) for name in handles]
    above = blended_transform_factory(axes.figure.transFigure, axes.transAxes)
    place = {"loc": "lower left", "bbox_to_anchor": (0.01, 1.0), "bbox_transform": above}
    legend = axes.legend(handles.values(), names, ncols=columns, borderaxespad=0.4, **place)
    for handle, text in zip(handles.values(), legend.get_texts(), strict=True):
        text.set_color(handle.get_color() if isinstance(handle, Line2D) else LIGHT["note"])


def _line(axes: Axes, line: Line, unit: int) -> None:
    xs = [x for x, _ in line.points]
    values = [value / unit for _, value in line.points]
    if line.kind == "live":
        axes.fill_between(xs, values, step="post", color=LIGHT["live"], lw=0, label=line.name)
    else:
        dashes = _DASHES.get(line.kind, "-")
        axes.plot(xs, values, drawstyle="steps-post", color=LIGHT[line.kind], ls=dashes, label=line.name)
