"""How Python calls the library: texts, answers in JSON, and errors."""

from __future__ import annotations

import ctypes
from typing import Any


class FrugalAllocError(RuntimeError):
    """frugal_alloc cannot do what was asked. The message is one line that says why and what to do; PyTorch goes on as
    it was."""


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

    def _failure(self) -> FrugalAllocError:
        return FrugalAllocError(decode(self._library.frugal_last_error()))


def encode(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace")


def decode(text: bytes) -> str:
    return text.decode(errors="replace")
