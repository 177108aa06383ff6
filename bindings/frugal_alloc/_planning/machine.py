"""The simulated GPU's own functions, in a process that runs on it: see simulated_gpu/machine/control.h."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

ABSENT = (OSError, AttributeError)
_FUNCTIONS = {
    "calls": (ctypes.c_uint64, ctypes.c_char_p),
    "memory_used": (ctypes.c_uint64, ctypes.c_int),
    "memory_of_driver": (ctypes.c_uint64, ctypes.c_int),
    "memory_managed": (ctypes.c_uint64, ctypes.c_int),
    "unsupported_functions": (ctypes.c_char_p,),
    "set_observer": (None, ctypes.c_void_p),
}


@functools.cache
def function(name: str) -> Any:
    """``frugal_sim_`` and this name.

    Raises:
        ABSENT: the process runs on no simulated machine.
    """
    found = getattr(ctypes.CDLL("libcuda.so.1"), f"frugal_sim_{name}")
    found.restype, *found.argtypes = _FUNCTIONS[name]
    return found
