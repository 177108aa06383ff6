"""Keeps torch.compile away from our own functions, which a compiled program's calls lead through.

What the compiler finds on its way it compiles, or breaks its graph at. torch.compiler.disable() would import the
compiler, which takes seconds; the interpreter's part of it, which is asked here, is there always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def uncompiled(function: Function, *, calls_ours_only: bool) -> Function:
    """The function, which is from now on carried out as it is.

    Args:
        function: Written in Python.
        calls_ours_only: What it calls is not compiled either; False: what it calls is, as it would be without us.
    """
    try:
        from torch._C._dynamo import eval_frame
    except ImportError:
        return function
    # Versions of PyTorch differ: those that have neither compile a little more than they need to.
    if hasattr(eval_frame, "set_code_exec_strategy"):
        action = eval_frame._FrameAction
        below = action.SKIP if calls_ours_only else action.DEFAULT
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(action.SKIP, below))
    elif hasattr(eval_frame, "skip_code"):
        eval_frame.skip_code(function.__code__)
    return function
