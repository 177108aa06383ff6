"""Which calls of an optimizer's ``step`` are steps of the training."""

from __future__ import annotations

import weakref
from typing import Any

# So many steps of another without one of the main optimizer's: that one is done with.
ABANDONED_AFTER = 8
# And so many of one that has never stepped beside it, on top of twice as many as others made between its own.
REPLACED_AFTER = 2


class StepCounter:
    """Counts the steps of the main optimizer: the first one seen, until another goes on without it.

    A program may have several that step in turn (a GAN, or one for each layer); all of them together make one step. One
    that is made anew for each fold, or restart, replaces the one before, though that may be kept.
    """

    def __init__(self) -> None:
        self.count = 0
        #: Whether a backward pass has ended before any optimizer has stepped: then calls of grad() are no steps.
        self.has_backward = False
        self._main: weakref.ref | None = None
        self._steps_of_main = 0
        self._longest_gap = 0
        self._since_main: dict[int, int] = {}
        # Those that have stepped between two steps of the main one.
        self._beside_main: set[int] = set()

    @property
    def has_optimizer(self) -> bool:
        """Whether one has ever stepped; until then backward passes count."""
        return self._main is not None

    def note_backward(self) -> None:
        """A backward pass has ended in a program in which no optimizer has stepped; or gradients were computed in one
        without backward passes."""
        self.count += 1

    def note(self, optimizer: Any) -> bool:
        """An optimizer has stepped. Returns whether that was a step of the training."""
        main = self._main() if self._main is not None else None
        if main is optimizer:
            self._longest_gap = max(self._longest_gap, *self._since_main.values(), 0)
            self._beside_main.update(self._since_main)
            self._steps_of_main += 1
        else:
            steps = self._since_main.get(id(optimizer), 0) + 1
            if main is not None and steps < self._patience_with(optimizer):
                self._since_main[id(optimizer)] = steps
                return False
            self._main = weakref.ref(optimizer)
            self._steps_of_main, self._longest_gap = steps, 0
            self._beside_main.clear()
        self._since_main.clear()
        self.count += 1
        return True

    def _patience_with(self, optimizer: Any) -> int:
        """How many steps another makes until it takes over."""
        if self._steps_of_main < REPLACED_AFTER or id(optimizer) in self._beside_main:
            return ABANDONED_AFTER
        return REPLACED_AFTER + 2 * self._longest_gap
