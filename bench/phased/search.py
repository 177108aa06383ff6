"""Looks for the program with phases that is worst for ours: hill climbing over the generator's parameters."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from ..generators import phases
from ..generators.recorder import BadParameter
from . import programs
from .plays import Left

# Programs that are tried before there is a choice: as many at the start, and after each hill.
_DRAWN = 16
_TRIED = 8
# A hill is climbed when so many rounds have found nothing worse.
_ROUNDS = 6
_MOST_EVENTS = 60_000
# Where others get less than this part of the GPU, a few more or less of them decide.
_LEAST_PART = 0.25


class Search:
    """The same seed tries the same programs in the same order, however long it is let run."""

    def __init__(self, seed: int, measure: Callable[[list[programs.Program]], list[Left]]) -> None:
        """`measure` plays programs, in any order, and gives the figures in theirs."""
        self._chance = random.Random(seed)
        self._measure = measure
        # What the present hill has come to, and rounds since.
        self._top: Left | None = None
        self._idle = 0
        self.tried = 0
        # Of all hills.
        self.worst: Left | None = None

    def round(self) -> None:
        """Tries some programs, and goes on from the worst of them next time."""
        top = self._top
        if top is None or self._idle >= _ROUNDS:
            self._top, self._idle = None, 0
            made = [phases.random_parameters(self._chance.getrandbits(32)) for _ in range(_DRAWN)]
        else:
            made = [mutated(self._chance, phases.Parameters(**top.parameters)) for _ in range(_TRIED)]
        tried = self._measure([one for one in map(self._program, made) if one is not None])
        self.tried += len(tried)
        self._idle += 1
        for one in tried:
            if self._top is None or score(one) < score(self._top):
                self._top, self._idle = one, 0
        if self._top is not None and (self.worst is None or score(self._top) < score(self.worst)):
            self.worst = self._top

    def _program(self, parameters: phases.Parameters) -> programs.Program | None:
        """None: there can be none, or it is too long."""
        try:
            made = programs.of_parameters("search", parameters)
        except BadParameter:
            return None
        return made if 0 < made.body.event_count <= _MOST_EVENTS else None


def score(found: Left) -> float:
    """The lower, the worse for ours."""
    if found.better < _LEAST_PART * found.parameters["memory"]:
        return 2 + found.ratio
    return found.ratio


def mutated(chance: random.Random, parameters: phases.Parameters) -> phases.Parameters:
    """A few of the parameters otherwise, or the same program on another GPU."""
    names = [field.name for field in dataclasses.fields(parameters)]
    changed = parameters
    for name in chance.sample(names, chance.choice((1, 1, 2, 3))):
        changed = dataclasses.replace(changed, **{name: _otherwise(chance, name, changed)})
    memory = changed.memory
    size = min(max(changed.last_size, memory // phases.LEAST_LAST_PART), memory // phases.LAST_PART)
    largest = max(changed.largest, changed.smallest)
    survivor = max(changed.largest_survivor, changed.smallest_survivor)
    return dataclasses.replace(changed, last_size=size, largest=largest, largest_survivor=survivor)


def _otherwise(chance: random.Random, name: str, parameters: phases.Parameters) -> int | float:
    if name == "memory":
        return chance.choice(phases.GPUS)
    if name == "order":
        return chance.choice(phases.ORDERS)
    if name == "grain":
        return chance.choice(phases.GRAINS)
    value = getattr(parameters, name) * 4 ** chance.uniform(-1, 1)
    low, high = phases.LIMITS[name]
    value = min(max(value, low), high)
    return round(value) if isinstance(getattr(parameters, name), int) else round(value, 4)
