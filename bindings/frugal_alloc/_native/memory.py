"""The library's functions about a GPU's memory and about the memory of a tensor; see bindings/c_api/c_api.h."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from .calls import Functions

# Result and arguments of each function, as bindings/c_api/c_api.h declares them.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "frugal_trim": (ctypes.c_int64,),
    "frugal_release_idle": (ctypes.c_int64,),
    "frugal_stat_names": (ctypes.c_char_p,),
    "frugal_stats": (ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_int),
    "frugal_broken_promise": (ctypes.c_char_p, ctypes.c_int),
    "frugal_host_memory": (ctypes.c_char_p, ctypes.c_int),
    "frugal_owns": (ctypes.c_int, ctypes.c_void_p),
    "frugal_keep_in_place": (ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int),
    "frugal_await_shareable": (ctypes.c_int, ctypes.c_void_p),
    "frugal_make_shareable": (ctypes.c_int, ctypes.c_void_p),
}

# What frugal_make_shareable answers then.
_OUT_OF_MEMORY = -2


class MemoryFunctions(Functions):
    """What is in use, and what is given back, kept in place or shared."""

    _library_with_gil: ctypes.PyDLL

    def trim(self) -> int:
        return self._check(self._library.frugal_trim())

    def release_idle(self) -> int:
        """What the setting idle_release does at the end of each interval: returns the bytes that went."""
        return self._check(self._library.frugal_release_idle())

    def stats(self, device: int) -> dict[str, int]:
        figures = (ctypes.c_int64 * len(self._stat_names))()
        self._check(self._library.frugal_stats(device, figures, len(figures)))
        return dict(zip(self._stat_names, figures, strict=True))

    def broken_promise(self, device: int) -> str:
        """What a GPU's driver promises and does not keep, and what is lost by it; "" if nothing is known."""
        return self._library.frugal_broken_promise(device).decode(errors="replace")

    def host_memory(self, device: int) -> str:
        """Where the memory of a GPU that has been used is the host's: how much can be had, and who has the rest."""
        return self._library.frugal_host_memory(device).decode(errors="replace")

    def owns(self, address: int) -> bool:
        """Whether the address lies in our memory."""
        return bool(self._library.frugal_owns(address))

    def keep_in_place(self, address: int, size: int, keep: bool) -> None:
        """From now on the physical memory of a range stays where it is, or may move again."""
        self._check(self._library.frugal_keep_in_place(address, size, keep))

    def make_shareable(self, storage: int) -> None:
        """Moves the bytes of a storage (``UntypedStorage._cdata``) to where another process can open them, if need be.

        The GPU's work is waited for without the interpreter's lock, which that work may need. The lock is held while
        the bytes move, so that no other thread of Python's can begin to use the storage.
        """
        self._check(self._library.frugal_await_shareable(storage))
        moved = self._library_with_gil.frugal_make_shareable(storage)
        if moved == _OUT_OF_MEMORY:
            import torch

            raise torch.OutOfMemoryError(str(self._failure()))
        self._check(moved)

    def _use_with_lock(self, path: str) -> None:
        """For the functions that are called with the interpreter's lock held."""
        self._library_with_gil = ctypes.PyDLL(path)
        self._library_with_gil.frugal_make_shareable.argtypes = [ctypes.c_void_p]

    @functools.cached_property
    def _stat_names(self) -> list[str]:
        return self._library.frugal_stat_names().decode().split()
