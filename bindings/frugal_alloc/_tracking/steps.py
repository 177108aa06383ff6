"""Which calls of an optimizer's ``step`` are steps of the training."""

from __future__ import annotations

import weakref
from typing import Any

# So many steps of another without one of the main optimizer's: that one is done with.
ABANDONED_AFTER = 8


class StepCounter:
    """Counts the steps of the main optimizer: the first one seen, until another goes on without it.

    A program may have several that step in turn (a GAN, or one for each layer); all of them together make one step.
    """

    def __init__(self) -> None:
        self.count = 0
        self._main: weakref.ref | None = None
        self._since_main: dict[int, int] = {}

    @property
    def has_optimizer(self) -> bool:
        """Whether one has ever stepped; until then backward passes count."""
        return self._main is not None

    def note_backward(self) -> None:
        """A backward pass has ended in a program in which no optimizer has stepped."""
        self.count += 1

    def note(self, optimizer: Any) -> bool:
        """An optimizer has stepped. Returns whether that was a step of the training."""
        main = self._main() if self._main is not None else None
        if main is not optimizer:
            steps = self._since_main.get(id(optimizer), 0) + 1
            if main is not None and steps < ABANDONED_AFTER:
                self._since_main[id(optimizer)] = steps
                return False
            self._main = weakref.ref(optimizer)
        self._since_main.clear()
        self.count += 1
        return True
