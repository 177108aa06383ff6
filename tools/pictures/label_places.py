"""Where a name inside a chart hides least."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from .drawing import number

_FAR_COST, _LINE_COST, _NAME_COST, _OUTSIDE_COST = 2, 1, 1_000, 100_000
_FARTHEST = 7


@dataclasses.dataclass(frozen=True)
class Box:
    """In pixels; `x` and `y` are its left and its upper side."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        across = self.x < other.x + other.width and other.x < self.x + self.width
        return across and self.y < other.y + other.height and other.y < self.y + self.height

    def within(self, other: Box) -> bool:
        across = other.x <= self.x and self.x + self.width <= other.x + other.width
        return across and other.y <= self.y and self.y + self.height <= other.y + other.height

    def thread_from(self, x: float, y: float, near: float) -> str | None:
        """A path from a point to the box; None if the point is as near as that."""
        to_x = max(self.x, min(x, self.x + self.width))
        to_y = max(self.y, min(y, self.y + self.height))
        if math.hypot(to_x - x, to_y - y) <= near:
            return None
        return f"M{number(x)} {number(y)}L{number(to_x)} {number(to_y)}"


class Places:
    """The area of a chart, its lines, and the names that stand there so far."""

    def __init__(self, area: Box, lines: Iterable[Sequence[tuple[float, float]]]) -> None:
        self._area = area
        # A step's level part and its upright part, each as a thin box.
        self._lines = [box for line in lines for box in _steps(line)]
        self._taken: list[Box] = []

    def take(self, box: Box) -> None:
        self._taken.append(box)

    def find(self, x: float, y: float, width: float, height: float, distance: float) -> Box:
        """A place for a name beside the point (x, y), which is taken then."""
        around = _around(self._area, x, y, width, height, distance)
        best = min(around, key=lambda place: place[0] * _FAR_COST + self._cost(place[1]))
        self.take(best[1])
        return best[1]

    def _cost(self, box: Box) -> int:
        outside = 0 if box.within(self._area) else _OUTSIDE_COST
        names = sum(_NAME_COST for other in self._taken if box.overlaps(other))
        return outside + names + sum(_LINE_COST for part in self._lines if box.overlaps(part))


def _steps(line: Sequence[tuple[float, float]]) -> Iterator[Box]:
    for (x, y), (then, height) in itertools.pairwise(line):
        yield Box(x, y - 1, then - x, 2)
        yield Box(then - 1, min(y, height), 2, abs(height - y))


def _around(area: Box, x: float, y: float, width: float, height: float, distance: float) -> Iterator[tuple[int, Box]]:
    """Places beside a point and above and below it, each with how far away it is, in halves of its height."""

    def within(left: float) -> float:
        return max(area.x, min(left, area.x + area.width - width))

    for far in range(_FARTHEST):
        for left in (x + distance, within(x + distance), within(x - width / 2), x - distance - width):
            yield far, Box(left, y + distance + far * height / 2, width, height)
            yield far, Box(left, y - distance - (far / 2 + 1) * height, width, height)
