"""What the library asks of Python when memory runs out, see bindings/c_api/c_api.h: to collect garbage, since cycles of
objects may hold tensors, and to explain the error.

A full collection takes some 90 ms beside a torch that has been imported, and more the more objects there are. A program
that catches its out-of-memory errors may meet thousands, so collections in vain are not repeated without end.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _interruptions
from .memory import Functions, encode


class OutOfMemory(NamedTuple):
    """All that is known of a request that could not be served; the names are those of a report's "oom"."""

    gpu: int
    requested_bytes: int
    site: int
    verdict: str  # "too_big", "leak", "fragmentation" or "outside"
    allocated_bytes: int  # without what sleeps
    awaiting_bytes: int  # freed, but a stream may still use them
    reserved_bytes: int
    native_reserved_bytes: int
    limit_bytes: int
    device_free_bytes: int
    device_total_bytes: int
    outside_bytes: int  # in use, but neither ours nor PyTorch's
    largest_free_bytes: int  # block of ours
    unusable_bytes: int  # free, but in handles that tensors in use share
    missing_bytes: int  # by so much the request did not fit
    limit_name: str
    tried: list[dict[str, Any]]  # "what" was tried, and "gained_bytes"
    host: str = ""  # where the GPU's memory is the host's: who has it
    host_own_bytes: int = 0  # pageable memory of this process, then
    asleep_bytes: int = 0
    kept_bytes: int = 0  # free, but private pools keep it


# The result is an address, as the text must outlive the call.
EXPLAINER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
GARBAGE_COLLECTOR = ctypes.CFUNCTYPE(ctypes.c_int)

_YOUNG = 1
# As much memory is in use if it is so to a page of ours.
_ALIKE_BYTES = 2 << 20
_MOST_REMEMBERED = 64


class Collector:
    """Collects all garbage; but where as much memory is in use as at earlier collections in vain, only the first,
    second, fourth, eighth ... time. In between it collects what has just been made.

    An attempt that has failed leaves its frames and what they hold as garbage, and more in use than before: by the
    number of collections in vain alone, the next attempt would be refused that memory.
    """

    def __init__(self, in_use: Callable[[], list[int]]) -> None:
        """`in_use` tells the bytes that are allocated on each GPU."""
        self._in_use = in_use
        # By what was in use: how often it has been in vain.
        self._in_vain: dict[tuple[int, ...], int] = {}

    def collect(self) -> int:
        """Returns the number of objects that were found."""
        before = self._in_use()
        key = tuple(size // _ALIKE_BYTES for size in before)
        times = self._in_vain[key] = self._in_vain.pop(key, 0) + 1
        if len(self._in_vain) > _MOST_REMEMBERED:
            self._in_vain.pop(next(iter(self._in_vain)), None)
        found = gc.collect(_YOUNG) if times & (times - 1) else gc.collect()
        if sum(self._in_use()) < sum(before):
            self._in_vain.clear()
        return found


class OutOfMemoryFunctions(Functions):
    """Who explains that memory ran out."""

    _explainers: tuple[Any, ...] = ()

    def set_explainer(self, explain: Callable[[OutOfMemory], str | None]) -> None:
        """`explain` says why memory ran out: what it returns follows PyTorch's first sentences in the error.

        It is called on the thread that asked for memory, with the interpreter's lock and none of ours, after every
        remedy has failed. If it raises, or returns None, the library has a short text of its own.
        """
        # By thread: each text must stay until the next one of its thread.
        texts: dict[int, Any] = {}

        def call(facts: bytes) -> int | None:
            text = explain(OutOfMemory(**self._answer(facts)))
            if text is None:
                return None
            buffer = ctypes.create_string_buffer(encode(text))
            texts[threading.get_ident()] = buffer
            return ctypes.addressof(buffer)

        explainer = EXPLAINER(_interruptions.callback(call))
        self._library.frugal_set_explainer(explainer)
        # The library may call it for ever, and one that was set before may be at work in another thread.
        self._explainers = (*self._explainers, explainer)
