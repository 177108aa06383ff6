"""Runs inside a program: keeps a journal of its allocations, ends it after enough steps, and leaves a record behind.

What it is to do stands in the environment (``orders.py``).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import types
from typing import Any

from ... import _native
from ..._program import loop
from ..._report import latest_error
from ..._tracking.steps import StepCounter
from .. import marks, process_record
from ..orders import Orders
from . import collectives
from .labels import Labels
from .step_limit import StepLimit

_agent: Agent | None = None


def start() -> None:
    """Follows this process from now on, as the environment says; torch has just been imported."""
    global _agent
    orders = Orders.from_environment(os.environ)
    if orders is None or _agent is not None:
        return
    try:
        if orders.allocator == "frugal":
            import frugal_alloc

            frugal_alloc.enable()
        _agent = Agent(orders, _native.load())
    except _native.FrugalAllocError as error:
        # Nothing can be said of this program: it may have PyTorch without CUDA.
        process_record.refuse(orders.folder, str(error))
        os._exit(2)


class Agent:
    """Of one process; its children by fork have none."""

    def __init__(self, orders: Orders, library: _native.Library) -> None:
        import torch

        self._orders = orders
        self._library = library
        self._labels = Labels(library)
        self._steps = StepCounter()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_over = False
        # It has an optimizer, or has made a backward pass: its steps count, and not its calls of a model.
        self._trains = False
        self._has_autocast = False
        self._error = ""
        library.journal_start()
        loop.listen(self)
        torch.cuda._lazy_call(self._cuda_started)
        self._watch_errors()
        atexit.register(self.finish)

    def _cuda_started(self) -> None:
        self._library.journal_observe_simulation()
        if self._orders.calls is not None:
            StepLimit(self._orders.calls, self._library, lambda: self._trains, self._leave).watch()

    # --- What _program.loop tells.

    def mark(self, text: str) -> None:
        if not self._is_over:
            self._library.journal_mark(text)

    def optimizer_made(self, optimizer: Any) -> None:
        self._trains = True
        self._labels.note(optimizer)

    def pass_begins(self) -> None:
        self._trains = True
        self._labels.look_around_once()
        self.mark(marks.BACKWARD)

    def pass_ended(self, is_backward: bool) -> None:
        self.mark(marks.AFTER_BACKWARD)
        if not self._steps.has_optimizer and not self._labels.has_optimizers:
            self._steps.note_backward()
            self._step_ended()

    def optimizer_begins(self, optimizer: Any) -> None:
        self._labels.of_gradients(optimizer)
        self.mark(marks.OPTIMIZER)

    def optimizer_stepped(self, optimizer: Any) -> None:
        self.mark(marks.AFTER_OPTIMIZER)
        self._labels.of_optimizer(optimizer)
        if self._steps.note(optimizer):
            self._step_ended()

    def autocast_entered(self) -> None:
        self._has_autocast = True

    def _step_ended(self) -> None:
        self.mark(marks.STEP)
        collectives.await_cleaning()
        process_record.tell_steps(self._orders.folder, self._process, self._steps.count)
        if self._orders.steps is not None and self._steps.count >= self._orders.steps:
            self._leave()

    # --- The end.

    def finish(self, ended: str = "") -> None:
        """Leaves the record, once. Nothing that happens afterwards belongs to it."""
        import torch

        with self._lock:
            if self._is_over or os.getpid() != self._process:
                return
            self._labels.look_around()
            self.mark(marks.END)
            self._is_over = True
        if not torch.cuda.is_initialized():
            return  # a launcher, which uses no GPU
        process_record.write(
            self._orders.folder,
            self._library,
            steps=self._steps.count,
            is_half=self._has_autocast or self._labels.trains_half,
            ended=ended,
            error=self._error,
            advice=_advice() if self._error else (),
        )

    def _leave(self) -> None:
        """Ends the program where it stands. What it would do at its end, saving a model, is of no interest."""
        self.finish(process_record.STEPS)
        process_record.await_other_ranks(self._orders.folder, os.environ)
        for stream in (sys.stdout, sys.stderr):
            # One that is closed, broken, or none at all.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        _end_children()
        os._exit(0)

    def _watch_errors(self) -> None:
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
            self._note_error(error)
            before(kind, error, trace)

        sys.excepthook = hook

    def _note_error(self, error: BaseException) -> None:
        """While the frames of the traceback still hold what they held."""
        import torch

        if isinstance(error, torch.OutOfMemoryError):
            self._error = str(error)
        self._labels.look_around()


def _advice() -> list[tuple[str, int, bool]]:
    """Of frugal_alloc's out-of-memory error, and whether it is about a line; PyTorch's gives none."""
    told = latest_error.last() or {}
    return [(change["text"], change["bytes"], change["line"] is not None) for change in told.get("advice", ())]


def _end_children() -> None:
    """Loaders' workers, which would be ended by the interpreter that is left here."""
    processes = sys.modules.get("multiprocessing.process")
    for child in processes.active_children() if processes is not None else ():
        child.terminate()
