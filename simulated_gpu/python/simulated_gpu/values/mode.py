"""Sees PyTorch's operators, and has values computed; which, and with what, is for its subclasses to say. And functions
of PyTorch's that do something else, or something more, where a mode computes values."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from .computation import Call, host_view, is_cuda, is_plain

# Nothing to compute: they make memory without values, or see to a tensor's memory and not to what is in it.
_WITHOUT_VALUES = {
    "_local_scalar_dense",
    "_pin_memory",
    "_resize_output_",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "is_pinned",
    "new_empty",
    "new_empty_strided",
    "record_stream",
    "resize_",
    "set_",
}


class ValuesMode(TorchDispatchMode):
    """Sees every operator of its thread, and of the autograd threads that work for it."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not by PyTorch's wrapper, which imports the compiler, some seconds, in each process at its first operator."""
        return False

    def takes(self, tensor: torch.Tensor) -> bool:
        """Whether it computes with such tensors; with others among the arguments an operator runs as it would."""
        raise NotImplementedError

    def carry_out(self, call: Call) -> Any:
        """The result of an operator that is to run on a GPU, with the values that it is to have."""
        raise NotImplementedError

    def start(self) -> None:
        """From here on, in this process; call it once torch is imported."""
        _keep_uncompiled(ValuesMode.__torch_dispatch__)
        _wrap_functions()
        enter_in_all_threads(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return self._run_higher_order(func, args, kwargs)
        call = Call(func, args, kwargs)
        if any(is_traceable_wrapper_subclass(tensor) for tensor in call.tensors):
            return NotImplemented  # its operators are seen in turn, on plain tensors
        if not call.is_on_gpu() or call.name in _WITHOUT_VALUES or not all(map(self.takes, call.tensors)):
            return func(*args, **kwargs)
        return self.carry_out(call)

    def _run_higher_order(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """An operator that takes functions, as flex_attention is: its plain form, whose operators the mode sees."""
        plain = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
        if plain is None:
            return func(*args, **kwargs)
        with self:
            return plain(*args, **kwargs)


def _keep_uncompiled(function: Callable) -> None:
    """Has torch.compile carry out the function, and what it calls, as they are, and not break its graphs there.

    torch.compiler.disable() would import the compiler, which takes seconds; the interpreter's part of it is there.
    """
    try:
        from torch._C._dynamo import eval_frame
    except ImportError:
        return
    # Versions of PyTorch differ: those that have neither compile a little more than they need to.
    if hasattr(eval_frame, "set_code_exec_strategy"):
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    elif hasattr(eval_frame, "skip_code"):
        eval_frame.skip_code(function.__code__)


# --- Wrapped functions.


def wrap(owner: Any, name: str, wrapper: Callable) -> None:
    """Has calls of a class's method or a module's function go to ``wrapper``, the original as its first argument."""
    wrapped = getattr(owner, name)

    def replacement(*args: Any, **kwargs: Any) -> Any:
        return wrapper(wrapped, *args, **kwargs)

    setattr(owner, name, replacement)


def _print(wrapped: Callable, tensor: torch.Tensor, indent: int) -> str:
    """On the CPU: printing computes with all modes off."""
    return wrapped(host_view(tensor.detach()) if is_cuda(tensor) and is_plain(tensor) else tensor, indent)


def _ctc_loss(wrapped: Callable, inputs: torch.Tensor, targets: torch.Tensor, *lengths_and_options: Any, **named: Any):
    """With lengths as lists, which PyTorch makes of them by itself unless a mode is on.

    Under one it hands the tensors on, and a GPU's operator refuses those that lie on the host, as they mostly do.
    """

    def as_list(value: Any) -> Any:
        return value.tolist() if isinstance(value, torch.Tensor) and value.dim() == 1 else value

    options = [as_list(value) for value in lengths_and_options]
    return wrapped(inputs, targets, *options, **{name: as_list(value) for name, value in named.items()})


def _await_backward_thread() -> None:
    """Until the thread that runs the passes of the current GPU has done with those before this one.

    Of this one it keeps nothing of Python's: ``torch.autograd.grad`` would leave it the tensor that it returns.
    """
    nothing = torch.empty(0, device="cuda", requires_grad=True)
    (nothing * 1).backward(torch.empty(0, device="cuda"))


def _run_backward(wrapped: Callable, *args: Any, **kwargs: Any) -> Any:
    """Has a pass that failed be over before its error goes on to the program.

    Where a mode sees the operators, their errors are Python's. A thread of PyTorch's ran the pass, and lets go of the
    error after the program has it, for which it needs the interpreter. Were that ending by then, PyTorch would end the
    process with SIGABRT, and its status would not be that of the error.
    """
    try:
        return wrapped(*args, **kwargs)
    except Exception:
        with contextlib.suppress(Exception), torch.enable_grad():
            if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
                _await_backward_thread()
        raise


def enter_in_all_threads(mode: TorchDispatchMode) -> None:
    """Modes are per thread, and threads do not inherit them."""

    def run_thread(wrapped: Callable, thread: threading.Thread) -> None:
        with mode:
            wrapped(thread)

    wrap(threading.Thread, "_bootstrap_inner", run_thread)
    mode.__enter__()


def _wrap_functions() -> None:
    wrap(torch._tensor_str, "_tensor_str", _print)
    wrap(torch, "ctc_loss", _ctc_loss)
    # Before PyTorch 2.3 what runs a pass is no function of Python's.
    passes = ("_engine_run_backward",) if hasattr(torch.autograd, "_engine_run_backward") else ("backward", "grad")
    for name in passes:
        wrap(torch.autograd, name, _run_backward)
