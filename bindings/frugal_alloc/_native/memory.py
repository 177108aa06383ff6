"""How Python calls the library: texts, answers in JSON, and errors. What memory is in use, shared or published; see
bindings/c_api/c_api.h."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_char_p, c_double, c_int, c_int64
from typing import Any, NamedTuple

# What frugal_make_shareable answers then.
_OUT_OF_MEMORY = -2


class FrugalAllocError(RuntimeError):
    """frugal_alloc cannot do what was asked. The message is one line that says why and what to do; PyTorch goes on as
    it was."""

    # Where programs have it from, which is how a traceback names it.
    __module__ = "frugal_alloc"


class Functions:
    """A part of the library's functions. May be called from any thread."""

    _library: ctypes.CDLL

    def _check(self, result: int) -> int:
        if result < 0:
            raise self._failure()
        return result

    def _answer(self, json_text: bytes | None) -> Any:
        """What a function tells in JSON; null is a failure."""
        # Here, since importing frugal_alloc is to cost little.
        import json

        if json_text is None:
            raise self._failure()
        return json.loads(json_text)

    def _is_so(self, result: int) -> bool:
        return self._check(result) != 0

    def _text(self, text: bytes) -> str:
        return decode(text)

    def _failure(self) -> FrugalAllocError:
        return FrugalAllocError(decode(self._library.frugal_last_error()))


def encode(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace")


def decode(text: bytes) -> str:
    return text.decode(errors="replace")


class PublishedVerdict(NamedTuple):
    """What leaks or grows, in a line for people."""

    kind: str
    gpu: int
    text: str
    bytes_per_epoch: float


class PublishedVerdictInC(ctypes.Structure):
    _fields_ = (
        ("kind", c_char_p),
        ("gpu", c_int),
        ("text", c_char_p),
        ("bytes_per_epoch", c_double),
    )


class MemoryFunctions(Functions):
    """What is in use or shared, and what is told of it."""

    _library_with_gil: ctypes.PyDLL

    def stats(self, device: int) -> dict[str, int]:
        figures = (c_int64 * len(self._stat_names))()
        self._check(self._library.frugal_stats(device, figures, len(figures)))
        return dict(zip(self._stat_names, figures, strict=True))

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

    @functools.cached_property
    def shared(self) -> set[int]:
        """Addresses of which what lies there, or lay there before, was given to other processes."""
        return set()

    def _use_with_lock(self, path: str) -> None:
        """For the functions that are called with the interpreter's lock held."""
        self._library_with_gil = ctypes.PyDLL(path)
        self._library_with_gil.frugal_make_shareable.argtypes = [ctypes.c_void_p]

    @functools.cached_property
    def _stat_names(self) -> list[str]:
        return self._library.frugal_stat_names().decode().split()

    # --- What is answered to ``frugal-alloc top``, which asks the process while it runs.

    def publish_verdicts(self, verdicts: list[PublishedVerdict]) -> None:
        """From now on these are told in the place of the library's own."""
        rows = [
            PublishedVerdictInC(encode(verdict.kind), verdict.gpu, encode(verdict.text), verdict.bytes_per_epoch)
            for verdict in verdicts
        ]
        self._library.frugal_publish_verdicts((PublishedVerdictInC * len(rows))(*rows), len(rows))
