"""In which phase a program is, by its marks and by who asks for memory."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Sequence

from . import marks
from .verdict import BACKWARD, ELSEWHERE, EVALUATION, FORWARD, OPTIMIZER

_BEGUN = {marks.BACKWARD: BACKWARD, marks.OPTIMIZER: OPTIMIZER}
_ENDED = {marks.AFTER_BACKWARD, marks.AFTER_OPTIMIZER}


@dataclasses.dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the run that is one phase's. Moments are numbers of entries of the journal."""

    begins: int
    phase: str
    step: int


class PhaseTracker:
    """Backward passes and optimizers' steps are marked. The rest is told by allocations within calls of modules: with
    gradients they are a forward pass, which lasts to the next mark, and without them evaluation.

    A model that is no module has its forward pass between the mark before a backward pass and that.
    """

    def __init__(self) -> None:
        #: Calls of modules from outside of any, as far as they allocated.
        self.calls = 0
        self._begins = [0]
        self._phases = [ELSEWHERE]
        self._steps = [1]
        self._step = 1
        self._is_in_module = False

    def mark(self, at: int, text: str) -> None:
        if text == marks.STEP:
            self._step += 1
            self._begin(at, ELSEWHERE)
        elif text in _BEGUN:
            if text == marks.BACKWARD:
                self._led_to_backward()
            self._begin(at, _BEGUN[text])
        elif text in _ENDED:
            self._begin(at, ELSEWHERE)

    def allocation(self, at: int, in_module: bool, with_gradients: bool) -> int:
        """Returns the number of the stretch that it is in."""
        if in_module and not self._is_in_module:
            self.calls += self._phases[-1] in (ELSEWHERE, FORWARD, EVALUATION)
        self._is_in_module = in_module
        if in_module:
            if with_gradients and self._phases[-1] in (ELSEWHERE, EVALUATION):
                self._begin(at, FORWARD)
            elif not with_gradients and self._phases[-1] == ELSEWHERE:
                self._begin(at, EVALUATION)
        return len(self._begins) - 1

    def stretches(self) -> list[Stretch]:
        return [Stretch(*parts) for parts in zip(self._begins, self._phases, self._steps, strict=True)]

    def _led_to_backward(self) -> None:
        """A compiled model computes without gradients and keeps by itself what its backward pass needs."""
        is_first = len(self._begins) == 1
        if self._phases[-1] == EVALUATION or (self._phases[-1] == ELSEWHERE and not is_first):
            self._phases[-1] = FORWARD

    def _begin(self, at: int, phase: str) -> None:
        self._begins.append(at)
        self._phases.append(phase)
        self._steps.append(self._step)


def stretch_at(stretches: Sequence[Stretch], moment: int) -> int:
    """The number of the stretch in which a moment lies."""
    return max(bisect.bisect_right(stretches, moment, key=lambda stretch: stretch.begins) - 1, 0)
