"""Which DataLoader is the training's, and when it starts over."""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import Any


class Pass:
    """One iteration over a loader."""

    __slots__ = ("batches", "has_stepped", "is_exhausted", "is_training", "loader", "steps_at_batch")

    def __init__(self, loader: weakref.ref) -> None:
        self.loader = loader
        self.batches = 0
        # Whether steps were made between its batches; and whether they are made, or were in the pass before.
        self.has_stepped = False
        self.is_training = False
        self.is_exhausted = False
        self.steps_at_batch = 0


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

    def _takes_over(self, of: Pass) -> bool:
        primary = self._primary
        if primary is not None and primary.loader() is not None and not primary.is_exhausted and primary.is_training:
            return False
        self._primary = of
        return primary is not None and primary.is_training
