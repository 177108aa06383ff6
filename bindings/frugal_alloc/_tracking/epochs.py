"""Where epochs end: where the program says so, where the training's DataLoader starts over, or else after some steps.

At first the library counts *windows* of optimizer steps as epochs. A window is one step long, and twice as long
whenever there are 32 of them. So a run of one epoch, or of a few, can be judged, too. Once a window is as long as an
epoch of the program, the program's epochs are counted instead. Until then a finding that they contradict is dropped
(:meth:`Epochs.bears_out`).

A program that has neither optimizer steps nor a DataLoader is judged by windows of calls of its modules. The library
counts these by itself, until there is a step or a DataLoader, or the program says a second time where an epoch ends.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .._common.trend import Held, are_as_many, are_larger, median_slope, rank_confidence
from .._native.epochs import Finding

if TYPE_CHECKING:
    from .._native import Library


MOST_WINDOWS = 32


class Epochs:
    """Tells the library where epochs end, and knows how that was found."""

    def __init__(self, library: Library, clock: Callable[[], float] = time.monotonic) -> None:
        self._library = library
        self._clock = clock
        self.was_called = False
        self.was_guessed = False
        #: The program's epochs that have ended, as far as they are known.
        self.ended = 0
        #: And those that have ended while nothing was recorded, and the steps that were made meanwhile.
        self.unwatched = 0
        self.unwatched_steps = 0
        self.steps = 0
        #: That loaders have given: what stands for steps where there are none.
        self.batches = 0
        #: Steps of the library's epochs; None: they are the program's.
        self.window_steps: int | None = 1
        self._steps_at_end = 0
        self._steps_in_window = 0
        self._windows_since_end = 0
        # When the program's latest epoch ended, as many windows had; None: no epoch has ended among windows.
        self._windows_at_end: int | None = None
        self._memory = EpochMemory(library)
        self._is_counting_calls = False
        # When windows of calls ended, the first and the latest, and by how many calls.
        self._first_calls: tuple[float, int] | None = None
        self._latest_calls = (0.0, 0)

    def count_calls(self) -> None:
        """Calls of modules end the library's epochs until anything else does."""
        self._is_counting_calls = True
        self._library.count_module_calls(True)

    def leave_calls(self) -> None:
        """What calls of modules have ended were no epochs of a program that steps, or has loaders."""
        if self._is_counting_calls:
            self._is_counting_calls = False
            self._library.count_module_calls(False)
            self._library.collapse_epochs()

    def calls_ended(self) -> None:
        """Calls of modules have ended an epoch of the library's, or several."""
        self._latest_calls = self._clock(), self._library.epochs_ended() * self.calls_per_epoch
        self._first_calls = self._first_calls or self._latest_calls

    @property
    def seconds_per_epoch(self) -> float | None:
        """Of those that calls of modules end, as they have come so far; None: that is not known, or they end none."""
        if self._first_calls is None or not self._is_counting_calls:
            return None
        (began, before), (ended, calls) = self._first_calls, self._latest_calls
        return (ended - began) / (calls - before) * self.calls_per_epoch if calls > before else None

    @property
    def calls_per_epoch(self) -> int:
        """Calls of modules in what the library counts as an epoch; 0: they end none."""
        return self._library.module_calls_to_epoch() if self._is_counting_calls else 0

    @property
    def found_by(self) -> str:
        """ "called", "data_loader", "steps" or "calls" (windows of them), or "none"."""
        if self._is_counting_calls and self._library.epochs_ended():
            return "calls"
        if self.was_called:
            return "called"
        if self.was_guessed:
            return "data_loader"
        return "steps" if self.steps else "none"

    @property
    def steps_per_epoch(self) -> float | None:
        """Of the program's epochs; None: none has ended, or not all of them have steps, so that steps tell nothing."""
        if not self.ended or self._steps_at_end < self.ended:
            return None
        return self._steps_at_end / self.ended

    @property
    def steps_per_judged_epoch(self) -> float | None:
        """Steps in what the library counts as an epoch, or calls of modules, or batches; None where there are none."""
        if calls := self.calls_per_epoch:
            return calls
        if not self.steps and self.batches and self.ended:
            return self.batches / self.ended
        return self.window_steps if self.window_steps is not None and self.steps else self.steps_per_epoch

    def forget_steps(self) -> None:
        """What was counted as steps were only parts of the first one."""
        self.steps = 0

    def step(self) -> bool:
        """The training has made a step. Returns whether a window ends here: then :meth:`end_window` is to be called."""
        self.leave_calls()
        self.steps += 1
        if self.window_steps is None:
            return False
        self._steps_in_window += 1
        return self._steps_in_window >= self.window_steps

    def end_window(self) -> None:
        """The library's epoch ends, and more steps make the next ones if there are many."""
        self._steps_in_window = 0
        self._windows_since_end += 1
        self._library.epoch_end()
        if self._library.epochs_ended() >= MOST_WINDOWS:
            self._library.halve_epochs()
            self.window_steps *= 2
            if self._windows_at_end is not None:
                self._windows_at_end //= 2

    def end(self, called: bool) -> None:
        """An epoch of the program has ended."""
        if called and not self.was_called:
            # What was guessed before was no epoch, or the same one.
            self.was_called = True
            self.ended = 0
            self._windows_at_end = None
            self._memory.clear()
        self.was_guessed = self.was_guessed or not called
        self.ended += 1
        if self._is_counting_calls:
            # One end tells less than windows do.
            if self.ended == 1 and self._library.epochs_ended() > 1:
                return
            self.leave_calls()
            if self.ended == 2:
                self._library.epoch_end()
        if self.window_steps is not None and self._windows_since_end and not self._is_long_enough():
            self._windows_at_end = self._library.epochs_ended()
            self._memory.note()
        else:
            if self._windows_since_end == 0 or self.window_steps is None or self._steps_in_window:
                self._library.epoch_end()
            if self.steps:
                self.window_steps = None
        self._steps_at_end = self.steps
        self._windows_since_end = 0

    def bears_out(self, gpu: int, sites: set[int], birth_epochs: set[int]) -> bool:
        """Whether the program's epochs do not contradict a finding that windows of steps have brought up.

        What was all made in the current epoch may be let go at its end; and what does not grow from the end of one
        epoch to that of another is replaced, not kept.

        Args:
            gpu: The GPU of the finding.
            sites: All sites that it speaks for.
            birth_epochs: The library's epochs in which what is in use of it was allocated; empty if that is not known.
        """
        if self.window_steps is None or self._windows_at_end is None:
            return True
        if birth_epochs and min(birth_epochs) >= self._windows_at_end:
            return False
        return self._memory.has_grown(gpu, sites)

    def held(self, gpu: int, sites: set[int]) -> list[Held]:
        """What the sites held together at the latest ends of the program's epochs, while windows of steps are judged;
        empty: too few have ended."""
        return self._memory.held(gpu, sites) if self.window_steps is not None else []

    def growing(self) -> list[Finding]:
        """What grows with the program's epochs while the library counts windows of steps, in which it does not show."""
        return self._memory.growing() if self.window_steps is not None else []

    def _is_long_enough(self) -> bool:
        return self.steps > 0 and self.window_steps * self.ended >= self.steps


# So many ends in a row must show more than the one before; of values in any order, one in 40,000 does.
RISING_ENDS = 8
# How far back an epoch is compared: an evaluation may be in every second one only.
COMPARED_ENDS = 2
# Of what a site grows by, what all of them together do at least: else one takes over what others let go.
LEAST_PART = 1 / 3


class EpochMemory:
    """What each site held at the latest ends of the program's epochs."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._ends: deque[dict[tuple[int, int], Held]] = deque(maxlen=RISING_ENDS)

    def note(self) -> None:
        """An epoch of the program ends here."""
        self._ends.append(
            {
                (usage.gpu, usage.site): Held(usage.live_bytes, usage.blocks)
                for usage in self._library.site_usages()
                if usage.live_bytes
            }
        )

    def clear(self) -> None:
        self._ends.clear()

    def has_grown(self, gpu: int, sites: Iterable[int]) -> bool:
        """Whether the sites together hold more than some epochs ago; True where that is not known."""
        if len(self._ends) <= COMPARED_ENDS:
            return True
        sites = tuple(sites)
        before, now = (
            sum(end[gpu, site].bytes for site in sites if (gpu, site) in end)
            for end in (self._ends[-1 - COMPARED_ENDS], self._ends[-1])
        )
        return now > before

    def held(self, gpu: int, sites: set[int]) -> list[Held]:
        """At the latest ends; empty: these are few."""
        ends = list(self._ends) if len(self._ends) == RISING_ENDS else []
        at_ends = [[end[gpu, site] for site in sites if (gpu, site) in end] for end in ends]
        return [Held(sum(one.bytes for one in end), sum(one.blocks for one in end)) for end in at_ends]

    def growing(self) -> list[Finding]:
        """The sites that held more at each of the latest ends, in as many blocks, give or take one of ten: most of the
        growth is in the size of the mean block."""
        if len(self._ends) < RISING_ENDS:
            return []
        # A copy: an epoch may end in another thread meanwhile.
        growing, ends = [], list(self._ends)
        for gpu, site in ends[-1]:
            history = [end.get((gpu, site), Held(0, 0)) for end in ends]
            if self._grows(gpu, history):
                sizes = [held.bytes for held in history]
                rate, confidence = median_slope(sizes), rank_confidence(sizes)
                growing.append(Finding("growing", gpu, site, *history[-1], RISING_ENDS, rate, confidence, 0))
        return growing

    def _grows(self, gpu: int, history: list[Held]) -> bool:
        pairs = itertools.pairwise(history)
        if not all(later.bytes > earlier.bytes and are_as_many(earlier, later) for earlier, later in pairs):
            return False
        first, last = (
            sum(held.bytes for (number, _), held in end.items() if number == gpu)
            for end in (self._ends[0], self._ends[-1])
        )
        return are_larger(history[0], history[-1]) and last - first >= LEAST_PART * (
            history[-1].bytes - history[0].bytes
        )
