"""Pieces of memory as boxes, in pictures whose coordinates are pixels from the upper left."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch

from . import drawing
from .drawing import LIGHT

_KINDS = {
    "tensor": {"fc": LIGHT["tensor"], "lw": 0},
    "new": {"fc": LIGHT["new"], "lw": 0},
    "free": {"fill": False, "ec": LIGHT["free"], "lw": 2, "ls": (0, (2.5, 2))},
    "theirs": {"fill": False, "ec": LIGHT["free"], "lw": 1.5},
    "gone": {"fill": False, "ec": LIGHT["gone"], "lw": 1},
    "wanted": {"fill": False, "ec": LIGHT["bad"], "lw": 2},
}


def canvas(figure: Figure) -> Axes:
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, drawing.WIDTH), ylim=(figure.get_figheight() * 72, 0))
    return axes


def box(axes: Axes, x: float, y: float, width: float, height: float, kind: str) -> None:
    axes.add_patch(FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=4", **_KINDS[kind]))


def write(axes: Axes, x: float, y: float, words: str, kind: str = "ink", **options: object) -> None:
    """Text below `y`. What has an outcome's colour is bold."""
    weight = "bold" if kind in ("good", "bad") else "normal"
    axes.text(x, y, words, **({"color": LIGHT[kind], "va": "top", "weight": weight} | options))


def legend(axes: Axes, named: Mapping[str, str], left: float, told: str) -> None:
    """Along the lower side: what each kind of box is, and one more fact."""
    handles = [Patch(label=words, **_KINDS[kind]) for kind, words in named.items()]
    handles.append(Patch(fill=False, lw=0, label=told))
    columns = len(handles) if len(handles) < 5 else 3
    place = {"loc": "lower left", "bbox_to_anchor": (left / drawing.WIDTH, 0.01)}
    axes.legend(
        handles=handles, ncols=columns, handlelength=1, handleheight=1, borderpad=0, labelcolor=LIGHT["note"], **place
    )
