"""Whether code, a class or an object's class is the program's own."""

from __future__ import annotations

import sys

from .._program import users_code
from . import raw_objects


def is_ours(file: str) -> bool:
    return users_code.owner(file) == users_code.OURS


def file_of_class(kind: type) -> str | None:
    """The file of the module that a class was made in; None where that is not known."""
    module = sys.modules.get(raw_objects.text_of(kind, "__module__"))
    namespace = raw_objects.dictionary_of(module) if module is not None else None
    file = namespace.get("__file__") if namespace else None
    return file if isinstance(file, str) else None


def is_users_class(kind: type) -> bool:
    # A class of a notebook's, or of `python -c`, has no file.
    return raw_objects.text_of(kind, "__module__") == "__main__" or users_code.is_users(file_of_class(kind))
