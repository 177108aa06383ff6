"""What the library tells Python when memory runs out; see bindings/c_api/c_api.h."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _interruptions
from .calls import Functions, decode, encode, structure


class OutOfMemory(NamedTuple):
    """All that is known of a request that could not be served."""

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
    tried: list[tuple[str, int]]  # what was tried, and the bytes that each gained
    host: str = ""  # where the GPU's memory is the host's: who has it
    host_own_bytes: int = 0  # pageable memory of this process, then


# In the order of OutOfMemoryVerdict, by whose number the library names one.
VERDICTS = ("too_big", "leak", "fragmentation", "outside")

_OutOfMemory = structure(
    "_OutOfMemory",
    "int gpu; int verdict; int site; int64 requested; int64 missing; int64 allocated; int64 awaiting; int64 reserved; "
    "int64 native_reserved; int64 limit; int64 device_free; int64 device_total; int64 outside; int64 largest_free; "
    "int64 unusable; int64 stream_waits; int64 caches; int64 garbage; int64 host_waits; text limit_name; text host; "
    "int64 host_own",
)

# The result is an address, as the text must outlive the call.
EXPLAINER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_OutOfMemory))

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

        def call(facts: Any) -> int | None:
            text = explain(_out_of_memory(facts.contents))
            if text is None:
                return None
            buffer = ctypes.create_string_buffer(encode(text))
            texts[threading.get_ident()] = buffer
            return ctypes.addressof(buffer)

        explainer = EXPLAINER(_interruptions.callback(call))
        self._library.frugal_set_explainer(explainer)
        # The library may call it for ever, and one that was set before may be at work in another thread.
        self._explainers = (*self._explainers, explainer)


def _out_of_memory(facts: Any) -> OutOfMemory:
    tried = [
        ("waiting for other streams", facts.stream_waits + facts.host_waits),
        ("memory that PyTorch caches", facts.caches),
        ("Python's garbage", facts.garbage),
    ]
    return OutOfMemory(
        facts.gpu,
        facts.requested,
        facts.site,
        VERDICTS[facts.verdict],
        facts.allocated,
        facts.awaiting,
        facts.reserved,
        facts.native_reserved,
        facts.limit,
        facts.device_free,
        facts.device_total,
        facts.outside,
        facts.largest_free,
        facts.unusable,
        facts.missing,
        decode(facts.limit_name),
        tried,
        decode(facts.host),
        facts.host_own,
    )
