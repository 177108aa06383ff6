"""Runs inside a program: keeps a journal of its allocations, ends it after enough steps, and leaves a record behind."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
import types
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ... import _native
from ..._heap import live_tensors
from ..._program import loop
from ..._report import latest_error
from ..._tracking.trained import gradients_of, parameters_of, parts_of, tensors_in_state
from ..._tracking.training import StepCounter
from .. import followed, marks
from ..recorder import Journal, ProcessRecorder, journal_of
from . import kernels, longest, process_record
from .verdict import GRADIENTS, OPTIMIZER_STATE, PARAMETERS

_EVERY_SECONDS = 0.05
# For other ranks.
_PATIENCE_SECONDS = 30.0
# Where bitsandbytes and torchao begin with 8-bit states.
_LEAST_NUMBERS = 4096
# The thread that looks for collectives that are done does so every 100 ms (ProcessGroupNCCL's watchdog).
_TWO_LOOKS_SECONDS = 0.25

_agent: Agent | None = None


def start() -> None:
    """Follows this process from now on, as its order says; torch has just been imported."""
    global _agent
    if _agent is not None:
        return
    import torch

    # A PyTorch without CUDA has no kernels to ask for: the library refuses it below.
    ask = getattr(getattr(torch, "_C", None), "_cuda_getArchFlags", None)
    capability, built_for = followed.order()["capability"], ask().split() if ask is not None else []
    if capability and not kernels.are_for(built_for, capability):
        why = kernels.refusal(torch.__version__, built_for, capability)
        _refuse({process_record.REFUSED: why, process_record.BUILT_FOR: built_for})
    try:
        _agent = Agent(*followed.start())
    except _native.FrugalAllocError as error:
        # It may have PyTorch without CUDA.
        _refuse({process_record.REFUSED: str(error)})


def _refuse(message: followed.Message) -> NoReturn:
    """Nothing can be said of this program."""
    followed.Sender(followed.order()["folder"]).send(message)
    os._exit(2)


class Agent(ProcessRecorder):
    """Marks what the program does, labels what its memory is for, and ends it."""

    def __init__(self, sender: followed.Sender, order: Mapping[str, Any]) -> None:
        """The order says after how many ``steps``, or ``calls`` of a model in a program without steps, that is ended;
        None: by itself. And whether loaders are to give their ``longest`` batches first."""
        self._folder = order["folder"]
        self._most_steps, self._most_calls = order["steps"], order["calls"]
        self._journal = journal = journal_of(order["allocator"])
        self._labels = Labels(journal)
        self._steps = StepCounter()
        self._lock = threading.Lock()
        self._is_over = False
        # It has an optimizer, or has made a backward pass: its steps count, and not its calls of a model.
        self._trains = False
        self._has_autocast = False
        self._error = ""
        if order["longest"]:
            longest.take_first()
        super().__init__(sender, journal)
        loop.listen(self)
        self._watch_errors()

    def _cuda_started(self) -> None:
        self._journal.journal_observe_simulation()
        if self._most_calls is not None:
            threading.Thread(target=self._watch_calls, name="frugal-alloc fit", daemon=True).start()

    def _watch_calls(self) -> None:
        """Where the program is when this has seen enough does not matter, since whoever reads the journal leaves out
        what comes after the last call that counts."""
        while not self._trains:
            # One more has begun when the last one that counts has ended.
            if self._journal.journal_module_calls() > (self._most_calls or 0):
                self._leave()
            time.sleep(_EVERY_SECONDS)

    # --- What _program.loop tells.

    def mark(self, text: str) -> None:
        if not self._is_over:
            self._journal.journal_mark(text)

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
        _await_collectives()
        # For the progress bar.
        with contextlib.suppress(OSError):
            self.send({process_record.STEPS_ENDED: self._steps.count})
        if self._most_steps is not None and self._steps.count >= self._most_steps:
            self._leave()

    # --- The end.

    def finish(self, ended: str = "") -> None:
        """Leaves the record, once. Nothing that happens afterwards belongs to it.

        Who comes second waits, since the program's end would cut it off.
        """
        if self.is_in_child:
            return
        with self._lock:
            if not self._is_over:
                self._finish(ended)

    def _finish(self, ended: str) -> None:
        import torch

        self._labels.look_around()
        self.mark(marks.END)
        self._is_over = True
        if not torch.cuda.is_initialized():
            return  # a launcher, which uses no GPU
        record = process_record.of_this_process(
            self._folder,
            self._journal,
            steps=self._steps.count,
            trains=self._trains,
            is_half=self._has_autocast or self._labels.trains_half,
            can_fuse=self._labels.can_fuse,
            reordered=longest.reordered(),
            ended=ended,
            error=self._error,
            advice=_advice() if self._error else [],
        )
        self.send(record)

    def _leave(self) -> None:
        """Ends the program where it stands. What it would do at its end, saving a model, is of no interest."""
        self.finish(process_record.STEPS)
        self._await_other_ranks()
        for stream in (sys.stdout, sys.stderr):
            # One that is closed, broken, or none at all.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        _end_children()
        os._exit(0)

    def _await_other_ranks(self) -> None:
        """Until the ranks of this machine have all left their records; one that goes first would be an error to
        others."""
        missing = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        mailbox = followed.Mailbox(self._folder)
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            missing -= sum(process_record.RECORD in message for message in mailbox.new())
            if missing <= 0:
                return
            time.sleep(_EVERY_SECONDS)

    def _watch_errors(self) -> None:
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
            self._note_error(error)
            before(kind, error, trace)

        sys.excepthook = hook

    def _note_error(self, error: BaseException) -> None:
        """While the frames of the traceback still hold what they held."""
        import torch

        if isinstance(error, torch.cuda.OutOfMemoryError):
            self._error = str(error)
        self._labels.look_around()


def _advice() -> list[tuple[str, int, bool]]:
    """Of frugal_alloc's out-of-memory error, and whether it is about a line; PyTorch's gives none."""
    error = latest_error.last() or {}
    return [(change["text"], change["bytes"], change["line"] is not None) for change in error.get("advice", ())]


def _await_collectives() -> None:
    """After each step of a program with collectives: lets torch let go of their buffers, as it has time to on a GPU.

    What a collective has used is kept until a thread of torch's has seen that it is done. A step here takes less time
    than that thread sleeps, so that buffers would be kept for some steps, and for another number in each run.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        time.sleep(_TWO_LOOKS_SECONDS)


def _end_children() -> None:
    """Loaders' workers, which would be ended by the interpreter that is left here."""
    processes = sys.modules.get("multiprocessing.process")
    for child in processes.active_children() if processes is not None else ():
        child.terminate()


class Labels:
    """A label holds for the allocation that is live at its address, for all of that one's life."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._has_looked = False
        # An optimizer has parameters of half precision; knows fused=True, and was made without.
        self.trains_half = self.can_fuse = False

    @property
    def has_optimizers(self) -> bool:
        return bool(self._optimizers)

    def note(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)

    def of_optimizer(self, optimizer: Any) -> None:
        self.note(optimizer)
        parameters = parameters_of(optimizer)
        self.trains_half |= any(_is_half(parameter) for parameter in parameters)
        self._label(parameters, PARAMETERS)
        self.can_fuse |= any("fused" in group and not group["fused"] for group in optimizer.param_groups)
        self._label(gradients_of(parameters), GRADIENTS)
        self._label(tensors_in_state(optimizer.state), OPTIMIZER_STATE)
        for label, size in marks.NUMBERS.items():
            self._label((state for state in tensors_in_state(optimizer.state) if _has_numbers(state, size)), label)

    def of_gradients(self, optimizer: Any) -> None:
        """A step may let them go."""
        self._label(gradients_of(parameters_of(optimizer)), GRADIENTS)

    def look_around_once(self) -> None:
        """Before the first backward pass: what an optimizer does not have, as a frozen model's parameters."""
        if not self._has_looked:
            self._has_looked = True
            self.look_around()

    def look_around(self) -> None:
        """Of all modules and optimizers there are. Looks at every object of Python's: a tenth of a second."""
        import torch

        for candidate in gc.get_objects():
            if issubclass(type(candidate), torch.nn.Module):
                owned = [*parts_of(candidate, "_parameters"), *parts_of(candidate, "_buffers")]
                self._label(owned, PARAMETERS)
                self._label(gradients_of(owned), GRADIENTS)
        for optimizer in list(self._optimizers):
            self.of_optimizer(optimizer)

    def _label(self, tensors: Iterable[Any], component: str) -> None:
        with live_tensors.without_torch_functions():
            for tensor in tensors:
                for part in live_tensors.plain_parts(tensor):
                    address = live_tensors.address_of(part)
                    if address:
                        self._journal.journal_label(address, component)


def _has_numbers(state: Any, size: int) -> bool:
    """Of so many bytes, and enough of them that 8-bit optimizers do not leave them as they are."""
    return state.is_floating_point() and state.element_size() == size and state.numel() >= _LEAST_NUMBERS


def _is_half(parameter: Any) -> bool:
    import torch

    return getattr(parameter, "dtype", None) in (torch.bfloat16, torch.float16)
