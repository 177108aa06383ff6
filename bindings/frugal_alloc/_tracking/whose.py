"""Whether code, a class or an object's class is the program's own."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig

from . import raw_objects

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = tuple(
    os.path.realpath(path) + os.sep for path in map(sysconfig.get_path, ("stdlib", "platstdlib")) if path
)


@functools.lru_cache(maxsize=4096)
def is_users(file: str | None) -> bool:
    """Whether a file is the program's: of no installed package, not of the standard library, and not ours."""
    if not file or file.startswith("<frozen"):
        return False
    path = os.path.abspath(file)
    if is_ours(path) or "site-packages" in path or "dist-packages" in path:
        return False
    return not path.startswith(_LIBRARIES)


def is_ours(file: str) -> bool:
    return file.startswith(PACKAGE + os.sep)


def file_of_class(kind: type) -> str | None:
    """The file of the module that a class was made in; None where that is not known."""
    module = sys.modules.get(raw_objects.text_of(kind, "__module__"))
    namespace = raw_objects.dictionary_of(module) if module is not None else None
    file = namespace.get("__file__") if namespace else None
    return file if isinstance(file, str) else None


def is_users_class(kind: type) -> bool:
    # A class of a notebook's, or of `python -c`, has no file.
    return raw_objects.text_of(kind, "__module__") == "__main__" or is_users(file_of_class(kind))
