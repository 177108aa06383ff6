"""The library's functions about tags and memory that sleeps, for Python; see bindings/c_api/c_api.h."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Sequence
from contextvars import Context, ContextVar
from typing import Any, NamedTuple

from .memory import Functions, encode


class AsleepBlock(NamedTuple):
    """A block without physical memory."""

    address: int
    tag: str  # "": none
    site: int  # that asked for it; 0: not known


class SleepFunctions(Functions):
    """What memory is for, what sleeps, and what wakes."""

    def find_context(self, variable: ContextVar[Any], context: Context, entered: object, number: int) -> bool:
        """Whether the library reads tags where Python's contexts have them, of which `context`, where this thread is,
        has `entered` in the variable; see bindings/tracking/python_context.h."""
        # Builds for debugging and those without the lock keep more in each object.
        if sys.abiflags:
            return False
        found = self._library.frugal_find_context(id(variable), hash(variable), id(context), id(entered), number)
        return found != 0

    def sleep(
        self,
        tags: Iterable[str] | None,
        keep: Iterable[str],
        drop: Iterable[str],
        host: str,
        poison: bool,
        storages: Sequence[int],
        no_pools: str | None,
    ) -> list[dict[str, Any]]:
        """Without `tags` all that may of these storages (``UntypedStorage._cdata``) sleeps, which live until this has
        returned. `no_pools`: why no memory of CUDA graphs can. Returns a row for each GPU."""
        held = (ctypes.c_void_p * len(storages))(*storages)
        chosen = (_joined(tags), _joined(keep), _joined(drop))
        refusal = None if no_pools is None else encode(no_pools)
        arguments = (*chosen, encode(host), poison, held, len(storages), refusal)
        return self._answer(self._library.frugal_sleep_held(*arguments))["gpus"]

    def wake(self, tags: Iterable[str] | None) -> list[dict[str, Any]]:
        """Returns a row for each GPU."""
        return self._answer(self._library.frugal_wake(_joined(tags)))["gpus"]

    def asleep(self) -> list[dict[str, Any]]:
        """A row for each GPU. The graphs of its ``pools``, as PyTorch numbers them, cannot be replayed now."""
        return self._answer(self._library.frugal_asleep())["gpus"]

    def asleep_block(self, storage: int) -> AsleepBlock | None:
        """The block of a storage; None: it is awake, or not our memory."""
        block = self._answer(self._library.frugal_asleep_block(storage))
        return None if block is None else AsleepBlock(**block)

    def tagged_bytes(self, tags: Iterable[str]) -> int:
        """In blocks of all GPUs that have one of these tags, awake or asleep."""
        return self._check(self._library.frugal_tagged_bytes(_joined(tags)))


def _joined(names: Iterable[str] | None) -> bytes | None:
    return None if names is None else encode("\n".join(names))
