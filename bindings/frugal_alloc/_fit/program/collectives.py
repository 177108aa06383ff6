"""Lets torch let go of the buffers of collectives, as it has the time to on a GPU."""

from __future__ import annotations

import sys
import time

# The thread that looks for collectives that are done does so every 100 ms (ProcessGroupNCCL's watchdog).
_TWO_LOOKS_SECONDS = 0.25


def await_cleaning() -> None:
    """To be called after each step. Does nothing in a program without collectives.

    What a collective has used is kept until a thread of torch's has seen that it is done. A step here takes less time
    than that thread sleeps, so that buffers would be kept for some steps, and for another number in each run.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        time.sleep(_TWO_LOOKS_SECONDS)
