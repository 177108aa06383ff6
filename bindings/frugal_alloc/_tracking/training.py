"""Which steps of optimizers, and which passes over DataLoaders, are those of the training."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import MutableMapping
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


@dataclasses.dataclass(eq=False)
class Pass:
    """One iteration over a loader."""

    loader: weakref.ref
    batches: int = 0
    has_stepped: bool = False  # between its batches
    is_training: bool = False  # steps are made, or were in the pass before
    is_exhausted: bool = False
    steps_at_batch: int = 0


class LoaderWatch:
    """Finds the ends of epochs in the order in which loaders start, give batches and run dry.

    A loader is the training's if optimizer steps fall between its batches; of several that are, the one that did so
    first counts, until it has run dry and another takes over (a loader made anew for each epoch). A pass without steps
    over the training's own loader is an evaluation, and ends nothing. Where no optimizer has ever stepped, every loader
    may be the one, and one that is made after another has run dry and is gone takes its place. A loader that is only
    asked for its first batch, again and again, tells nothing.
    """

    def __init__(self) -> None:
        from torch.utils.weak import WeakIdKeyDictionary

        # By loader and by iterator, which may have an equality of their own, and so no hash.
        self._passes: MutableMapping[Any, Pass] = WeakIdKeyDictionary()
        self._pass_of_iterator: MutableMapping[Any, Pass] = WeakIdKeyDictionary()
        self._primary: Pass | None = None
        # The latest pass that has run dry before any step.
        self._dry: Pass | None = None

    def start(self, loader: Any, iterator: Any, steps: int) -> bool:
        """`loader` starts over, or for the first time. Returns whether an epoch ends here."""
        before = self._passes.get(loader)
        started = Pass(weakref.ref(loader))
        self._passes[loader] = started
        self._pass_of_iterator[iterator] = started
        if before is None and steps == 0:
            before, self._dry = self._dry, None
            if before is not None and before.loader() is not None:
                return False
        if before is None or before.batches < 2 or not (before.has_stepped or steps == 0):
            if before is not None and before is self._primary:
                self._primary, started.is_training = started, before.is_training
            return False
        if self._primary is not None and self._primary is not before and self._primary.loader() is not None:
            return False
        self._primary = started
        # Known from the pass before, so that an evaluation within this one changes nothing.
        started.is_training = before.is_training
        return True

    def give(self, iterator: Any, steps: int) -> tuple[bool, bool]:
        """The iterator gives a batch. Returns whether an epoch has ended shortly before, and whether it is training."""
        of = self._pass_of_iterator.get(iterator)
        if of is None:
            return False, True
        ends = False
        if of.batches and steps > of.steps_at_batch:
            of.has_stepped = True
            if of is not self._primary:
                of.is_training = True
                ends = self._takes_over(of)
        of.batches += 1
        of.steps_at_batch = steps
        return ends, of.is_training or of is self._primary or of.batches == 1

    def run_dry(self, iterator: Any, steps: int) -> bool:
        """The iterator has no more. Returns whether an epoch has ended shortly before."""
        of = self._pass_of_iterator.get(iterator)
        if of is None:
            return False
        ends = self.give(iterator, steps)[0]
        of.batches -= 1
        of.is_exhausted = True
        if steps == 0:
            self._dry = of
        return ends

    def is_within_pass(self) -> bool:
        """Whether a loop over a loader is under way."""
        return any(not of.is_exhausted for of in self._pass_of_iterator.values())

    def _takes_over(self, of: Pass) -> bool:
        primary = self._primary
        if primary is not None and primary.loader() is not None and not primary.is_exhausted and primary.is_training:
            return False
        self._primary = of
        return primary is not None and primary.is_training
