"""Where a name inside a chart hides least."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

_LINE_COST, _NAME_COST, _OUTSIDE_COST = 1, 1_000, 100_000


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
        best = min(_around(x, y, width, height, distance), key=self._cost)
        self.take(best)
        return best

    def _cost(self, box: Box) -> int:
        outside = 0 if box.within(self._area) else _OUTSIDE_COST
        names = sum(_NAME_COST for other in self._taken if box.overlaps(other))
        return outside + names + sum(_LINE_COST for part in self._lines if box.overlaps(part))


def _steps(line: Sequence[tuple[float, float]]) -> Iterator[Box]:
    for (x, y), (then, height) in itertools.pairwise(line):
        yield Box(x, y - 1, then - x, 2)
        yield Box(then - 1, min(y, height), 2, abs(height - y))


def _around(x: float, y: float, width: float, height: float, distance: float) -> Iterator[Box]:
    """Places beside a point, the nearer first."""
    for far in (1, 2, 4, 7, 11):
        away = far * distance
        for top in (y + away, y - away - height, y - height / 2):
            yield Box(x + away, top, width, height)
            yield Box(x - away - width, top, width, height)
        yield Box(x - width / 2, y + away, width, height)
        yield Box(x - width / 2, y - away - height, width, height)
