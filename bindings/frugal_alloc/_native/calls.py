"""How Python calls the library: C structures, texts, arrays that the library fills, and its errors."""

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
            raise FrugalAllocError(self._library.frugal_last_error().decode(errors="replace"))
        return result

    def _all(self, kind: Any, function: Any, *arguments: Any) -> Any:
        """All that a function writes into an array, however many there are by then."""
        capacity = 64
        while True:
            array = (kind * capacity)()
            count = self._check(function(*arguments, array, capacity))
            if count <= capacity:
                return array[:count]
            capacity = 2 * count


def structure(name: str, fields: str) -> type[ctypes.Structure]:
    """A C structure; `fields` are "type name", separated by semicolons, as in bindings/c_api/c_api.h."""
    types = {
        "int": ctypes.c_int,
        "int64": ctypes.c_int64,
        "uint64": ctypes.c_uint64,
        "double": ctypes.c_double,
        "text": ctypes.c_char_p,
    }
    pairs = [field.split() for field in fields.split(";")]
    return type(name, (ctypes.Structure,), {"_fields_": [(field, types[kind]) for kind, field in pairs]})


def encode(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace")


def decode(text: bytes) -> str:
    return text.decode(errors="replace")
