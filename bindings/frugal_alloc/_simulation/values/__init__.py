"""The values of tensors on the simulated GPU, whose kernels do nothing.

The simulated memory is host memory at the very addresses that PyTorch sees, so the CPU can compute in it: all operators
with ``--values cpu`` (``every_operator``), those on small tensors otherwise (``small_tensors``). Where a value that
nobody has computed would decide over a size or over going on, an answer is made up (``plausible``).

Loaded by its path in processes that may not find the package around it: so it imports nothing of that.
"""

from __future__ import annotations

import os
from collections.abc import Callable


def start(uncompiled: Callable) -> None:
    """From here on, operators of this process on CUDA tensors have the values that it asks for; needs torch.

    Args:
        uncompiled: `_uncompiled.uncompiled`, for what torch.compile would otherwise compile or break its graphs at.
    """
    if os.environ.get("FRUGAL_SIM_VALUES") == "cpu":
        from . import every_operator

        every_operator.start(uncompiled)
        return
    from . import plausible

    plausible.start()
    # Late work moves bytes when its time has come, and without a backing there are none: memory says nothing yet.
    if os.environ.get("FRUGAL_SIM_LATE") != "1" and os.environ.get("FRUGAL_SIM_BACKING") != "none":
        from . import small_tensors

        small_tensors.start(uncompiled)


def declare_accesses() -> None:
    """From here on, operators on CUDA tensors declare what memory they touch; needs torch."""
    from . import accesses

    accesses.start()
