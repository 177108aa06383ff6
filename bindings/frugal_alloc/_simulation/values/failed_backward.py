"""Has a backward pass that failed be over before its error goes on to the program.

Where a mode sees the operators, their errors are Python's. A thread of PyTorch's ran the pass, and lets go of the error
after the program has it, for which it needs the interpreter. Were that ending by then, PyTorch would end the process
with SIGABRT, and its status would not be that of the error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from .graphs import wrap


def _await_thread() -> None:
    """Until the thread that runs the passes of the current GPU has done with those before this one.

    Of this one it keeps nothing of Python's: ``torch.autograd.grad`` would leave it the tensor that it returns.
    """
    nothing = torch.empty(0, device="cuda", requires_grad=True)
    (nothing * 1).backward(torch.empty(0, device="cuda"))


def _run(run_backward: Callable, *args: Any, **kwargs: Any) -> Any:
    try:
        return run_backward(*args, **kwargs)
    except Exception:
        with contextlib.suppress(Exception), torch.enable_grad():
            if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
                _await_thread()
        raise


def start() -> None:
    """From here on, in this process; call it once torch is imported."""
    wrap(torch.autograd, "_engine_run_backward", _run)
