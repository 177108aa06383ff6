"""The course of a line of steps through a picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from .drawing import number

# In pixels; of points that are nearer to each other, the highest stands for all.
_APART = 1.5


@dataclasses.dataclass(frozen=True)
class Course:
    """Points in pixels of the picture; between two, the line keeps the first one's height."""

    points: tuple[tuple[float, float], ...]

    def line(self) -> str:
        """SVG's path of the line."""
        (x, y), *rest = self.points
        parts = [f"M{number(x)} {number(y)}"]
        for there, then in rest:
            parts.append(f"H{number(there)}")
            if number(then) != number(y):
                parts.append(f"V{number(then)}")
            y = then
        return _joined(parts)

    def area(self, floor: float) -> str:
        """The area below the line, down to `floor`."""
        return f"{self.line()}V{number(floor)}H{number(self.points[0][0])}z"


def course(points: Sequence[tuple[float, float]], x: Callable[[float], float], y: Callable[[float], float]) -> Course:
    """Of points that `x` and `y` turn into pixels. The first and the last stay where they are."""
    found: list[tuple[float, float]] = []
    for place, value in points:
        here = (x(place), y(value))
        if len(found) > 1 and here[0] - found[-1][0] < _APART:
            found[-1] = (found[-1][0], min(found[-1][1], here[1]))
        else:
            found.append(here)
    end = (x(points[-1][0]), y(points[-1][1]))
    return Course((*found, end) if found[-1] != end else tuple(found))


def _joined(parts: list[str]) -> str:
    """Without a step to the right that another follows."""
    kept = [part for part, then in zip(parts, [*parts[1:], ""], strict=True) if part[0] != "H" or then[:1] != "H"]
    return "".join(kept)
