"""Puts together what follows a run, and listens to its training loop."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import _interruptions
from . import declarations
from .accusations import Witnesses
from .cycles import Cycles
from .declarations import Suppression
from .epochs import Epochs
from .outside import Outside
from .timeline import BatchPeaks, Timeline
from .trained import Trained
from .training import LoaderWatch, StepCounter

if TYPE_CHECKING:
    from .._native import Library


# An end of an epoch waits so long for another thread's hook, which may be looking for the holders of a leak.
PATIENCE_SECONDS = 10.0


def _quietly(method: Callable) -> Callable:
    """Whatever goes wrong in a hook must not reach the program; it ends the tracking, and the report says so. What a
    handler of a signal raises meanwhile is the program's, and reaches it."""

    @functools.wraps(method)
    def call(self: Tracker, *arguments: Any) -> None:
        # Garbage that is collected in here may run code of the user's that comes back.
        if self._busy_thread == threading.get_ident() or self.failure:
            return
        # What the program says is not left out; a step or a batch may be.
        is_said = method.__name__ == "epoch_ended"
        if not self._lock.acquire(timeout=PATIENCE_SECONDS if is_said else 0):
            return
        self._busy_thread = threading.get_ident()
        try:
            method(self, *arguments)
        except Exception as error:  # a library's or the interpreter's; nothing of that may come out
            _interruptions.pass_on(error)
            self.failure = f"{type(error).__name__}: {error}".split("\n")[0]
        finally:
            self._busy_thread = 0
            self._lock.release()

    return call


class Tracker:
    """Follows one process. The hooks may come from any thread; a step or batch that comes while another is in here is
    left out."""

    def __init__(self, library: Library) -> None:
        import torch

        self.library = library
        self.suppressions: list[Suppression] = []
        self._suppressions_file = ""
        self.started = time.time()
        self.steps = StepCounter()
        self.epochs = Epochs(library)
        self.loaders = LoaderWatch()
        self.timeline = Timeline(library)
        self.batches = BatchPeaks()
        self.cycles = Cycles(library)
        self.outside = Outside(library)
        self.trained = Trained()
        self.witnesses = Witnesses(library, self.trained)
        #: Called when an epoch has ended and was looked at.
        self.at_epoch_end: Callable[[], None] = lambda: None
        #: Whether allocations are recorded: not while tracking is off or frugal_alloc is disabled.
        self.is_watching = True
        #: Why the tracking ended, in a line; "" while it goes on.
        self.failure = ""
        self._lock = threading.Lock()
        self._busy_thread = 0
        self._tensor_type = torch.Tensor
        self._cuda = torch.cuda
        self._steps_at_point = 0

    def suppress_by(self, path: str) -> None:
        """From now on the file's suppressions hold; "" names none. What was read is not read again.

        Raises:
            FrugalAllocError: the file cannot be read, or a line of it is none.
        """
        if path != self._suppressions_file:
            self.suppressions = declarations.read_suppressions(path)
            self._suppressions_file = path

    @property
    def loaders_batch(self) -> int:
        """The samples of the batch that a loader has given last, while a loop over it is under way; 0: none is."""
        return next(iter(self.batches.current), 0) if self.loaders.is_within_pass() else 0

    # --- What _program.loop tells.

    @_quietly
    def optimizer_stepped(self, optimizer: Any) -> None:
        if not self.steps.has_optimizer:
            self.epochs.forget_steps()
        self.trained.note(optimizer)
        if self.steps.note(optimizer):
            self._step()

    @_quietly
    def pass_begins(self) -> None:
        """The peak of what came before, maybe of a step that has failed, is not the backward's."""
        if self.is_watching:
            self.batches.begun_bytes = self.timeline.note_backward()[1]

    @_quietly
    def pass_ended(self, is_backward: bool) -> None:
        """In a program without an optimizer of torch's backward passes are the steps, or where there are none either,
        the gradients that it asks for."""
        # One that has failed says nothing of what it needs.
        if is_backward and self.is_watching and sys.exc_info()[1] is None:
            peak, left = self.timeline.note_backward()
            self.batches.note(peak, left, self.steps.has_optimizer, self.loaders_batch, sys._getframe(1))
        if self.steps.has_optimizer or (self.steps.has_backward and not is_backward):
            return
        if is_backward and not self.steps.has_backward:
            # Gradients that were computed before were parts of the first step.
            self.steps.has_backward = True
            self.epochs.forget_steps()
        self.steps.note_backward()
        self._step()

    def _step(self) -> None:
        if not self.is_watching:
            self.epochs.unwatched_steps += 1
            return
        is_window_end = self.epochs.step()
        self._add_point()
        if is_window_end:
            self._look_around()
            self.epochs.end_window()
            self._look_for_witnesses()

    @_quietly
    def calls_ended_epoch(self) -> None:
        """Calls of modules have ended an epoch of the library's, or several."""
        if self.is_watching and self.epochs.calls_per_epoch:
            self.epochs.calls_ended()
            self._look_for_witnesses()

    @_quietly
    def loader_started(self, loader: Any, iterator: Any) -> None:
        # Its passes tell more than calls of modules do, were there only one.
        self.epochs.leave_calls()
        if self.loaders.start(loader, iterator, self.steps.count):
            self._end_epoch(called=False)

    @_quietly
    def batch_given(self, iterator: Any, batch: Any) -> None:
        # An evaluation has no steps: its batches are its points.
        if self.steps.count == self._steps_at_point and self.is_watching:
            self._add_point()
        self._steps_at_point = self.steps.count
        self.epochs.batches += self.is_watching
        ends, is_training = self.loaders.give(iterator, self.steps.count)
        if ends:
            self._end_epoch(called=False)
        if is_training:
            self.batches.give(iterator, batch, self._tensor_type)

    @_quietly
    def loader_ran_dry(self, iterator: Any) -> None:
        if self.loaders.run_dry(iterator, self.steps.count):
            self._end_epoch(called=False)

    @_quietly
    def epoch_ended(self) -> None:
        """The program says so."""
        self._end_epoch(called=True)

    def _end_epoch(self, called: bool) -> None:
        if self.epochs.was_called and not called:
            return
        if not self.is_watching:
            self.epochs.unwatched += 1
            return
        if self.steps.count == self._steps_at_point or not self.steps.count:
            self._add_point()
        self._look_around()
        self.epochs.end(called)
        self.timeline.end_epoch(self.epochs.steps, self.epochs.ended)
        self._look_for_witnesses()

    def _look_for_witnesses(self) -> None:
        self.timeline.note_end()
        self.witnesses.look(self.cycles, self.epochs, self.outside, self.suppressions)
        self.at_epoch_end()

    def _look_around(self) -> None:
        # Neither freeing garbage nor asking the driver is for a graph that is being captured.
        if self._cuda.is_initialized() and self._cuda.is_current_stream_capturing():
            return
        self.cycles.look()
        self.outside.look(self.steps.count or self.epochs.ended + 1)

    def _add_point(self) -> None:
        self.timeline.note(self.epochs.steps, self.epochs.ended, declarations.current())


def is_worker() -> bool:
    """Whether this process loads data for another."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
