"""What the library tells Python when memory runs out; see bindings/c_api/c_api.h."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _interruptions
from .calls import Functions, encode


class OutOfMemory(NamedTuple):
    """All that is known of a request that could not be served; the names are those of a report's "oom"."""

    gpu: int
    requested_bytes: int
    site: int
    verdict: str  # "too_big", "leak", "fragmentation" or "outside"
    allocated_bytes: int
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


# The result is an address, as the text must outlive the call.
EXPLAINER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)

# Result and arguments of each function, as bindings/c_api/c_api.h declares them.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "frugal_set_explainer": (None, EXPLAINER),
}


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
