"""Which of the objects on the ways to leaked tensors gathers them: the one that got more with each epoch."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from .reach import Reach

# An object of the same class so often on one way: a chain, each of whose members holds the next.
CHAIN = 4


class Grower(NamedTuple):
    """An object below which leaked tensors are, each part of it with those of few epochs."""

    number: int
    #: The number of a tensor below it.
    example: int


def growers(reach: Reach, births: dict[int, int]) -> list[Grower]:
    """The gatherers on the nearest ways to some tensors.

    A list that leaks has tensors of all epochs, and each of its items those of one. So the way is followed from a name
    for as long as one of the next objects has what most epochs left: through an object to its list, through a model to
    each of its layers' lists. A model in a list of copies is of one epoch, so the list is told, not its parameters.

    Args:
        reach: The walk that has reached the tensors.
        births: By number of the tensor, the epochs whose memory it holds, as bits.
    """
    ways = _Ways(reach, births)
    found: list[Grower] = []
    waiting = [(number, ()) for number in ways.starts]
    while waiting:
        number, above = waiting.pop()
        following = ways.after.get(number, [])
        is_split = number in births or not any(ways.spans(one, number) for one in following)
        if ways.epochs[number].bit_count() == 1 and len(following) == 1 and number not in births:
            is_split = False
        first = _first_of_chain(reach, (*above, number))
        if first is not None or is_split:
            found.append(Grower(number if first is None else first, ways.example(number)))
        else:
            waiting += [(one, (*above, number)) for one in following]
    return list({one.number: one for one in found}.values())


class _Ways:
    """The part of the walk that leads to the tensors: a tree."""

    def __init__(self, reach: Reach, births: dict[int, int]) -> None:
        self.epochs: dict[int, int] = dict(births)
        self.after: dict[int, list[int]] = {}
        self.starts: list[int] = []
        # An object is numbered after the one that led to it, so each is complete when its turn comes.
        waiting = [-number for number in births]
        heapq.heapify(waiting)
        while waiting:
            number = -heapq.heappop(waiting)
            parent = reach.parents[number]
            if parent < 0:
                self.starts.append(number)
                continue
            if parent not in self.epochs:
                heapq.heappush(waiting, -parent)
            self.epochs[parent] = self.epochs.get(parent, 0) | self.epochs[number]
            self.after.setdefault(parent, []).append(number)

    def spans(self, number: int, above: int) -> bool:
        """Whether an object has what more than half of the epochs left that the one above it has."""
        return self.epochs[number].bit_count() * 2 > self.epochs[above].bit_count()

    def example(self, number: int) -> int:
        while following := self.after.get(number):
            # Not the latest, which a variable may hold on its own.
            number = following[len(following) // 2]
        return number


def _first_of_chain(reach: Reach, way: tuple[int, ...]) -> int | None:
    kind = type(reach.objects[way[-1]])
    alike = [number for number in way if type(reach.objects[number]) is kind]
    # The attributes of any object are a dictionary.
    return alike[0] if len(alike) >= CHAIN and kind is not dict else None
