"""How a request goes through the parts of frugal_alloc: docs/pictures/architecture.svg. A drawing, not a run."""

from __future__ import annotations

from matplotlib.axes import Axes

from . import boxes, drawing
from .drawing import LIGHT

_HEIGHT = 172
_BOX, _ROWS = 58, (12, 102)
# Each part's left side, width and row, whether it is frugal_alloc's, and what is written on it.
_PARTS = {
    "torch": (16, 138, 0, False, "PyTorch"),
    "adapter": (186, 132, 0, True, "adapter"),
    "policy": (350, 112, 0, True, "policy"),
    "port": (494, 90, 0, True, "port"),
    "real": (616, 228, 0, False, "a real GPU"),
    "native": (16, 446, 1, False, "PyTorch's allocator, if off"),
    "simulated": (616, 228, 1, True, "a simulated GPU"),
}


def picture() -> str:
    return drawing.picture(told()["said"], _HEIGHT, lambda figure, _: _draw(boxes.canvas(figure)))


def told() -> dict[str, str]:
    return {
        "said": "PyTorch calls the adapter, which calls the policy, or PyTorch's own allocator while we are off. "
        "The policy calls the port, behind which is a real or a simulated GPU."
    }


def _draw(axes: Axes) -> None:
    for left, width, row, ours, words in _PARTS.values():
        boxes.box(axes, left, _ROWS[row], width, _BOX, "tensor" if ours else "theirs")
        middle = left + width / 2, _ROWS[row] + _BOX / 2
        boxes.write(axes, *middle, words, ha="center", va="center_baseline")
    for caller, called in (("torch", "adapter"), ("adapter", "policy"), ("policy", "port"), ("port", "real")):
        _arrow(axes, _right_of(caller), _left_of(called))
    _arrow(axes, _below("adapter"), (_below("adapter")[0], _ROWS[1]))
    _arrow(axes, _below("port"), _left_of("simulated"), connectionstyle="angle,angleA=90,angleB=0")


def _left_of(part: str) -> tuple[float, float]:
    left, _, row, *_ = _PARTS[part]
    return left, _ROWS[row] + _BOX / 2


def _right_of(part: str) -> tuple[float, float]:
    left, y = _left_of(part)
    return left + _PARTS[part][1], y


def _below(part: str) -> tuple[float, float]:
    left, width, row, *_ = _PARTS[part]
    return left + width / 2, _ROWS[row] + _BOX


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **course: str) -> None:
    shape = {"arrowstyle": "-|>", "mutation_scale": 20, "lw": 2, "color": LIGHT["note"], "shrinkA": 2, "shrinkB": 2}
    axes.annotate("", end, start, arrowprops=shape | course)
