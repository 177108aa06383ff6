"""The native library of this package, for the torch that is installed: found, checked, loaded and called.

Importing this room imports neither torch nor the library; :func:`load` does both. ``library.Library`` has the library's
functions, by concern from the other modules.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import threading

from .calls import FrugalAllocError
from .library import Library

__all__ = ["FrugalAllocError", "Library", "load", "loaded"]

_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


# In a child by fork, the thread of the parent's that held it is not there.
os.register_at_fork(after_in_child=_renew_lock)

_loaded: Library | None = None


def loaded() -> Library | None:
    """The library, if :func:`load` has been called; or the one that LD_PRELOAD has enabled."""
    if _loaded is None and "torch" in sys.modules and "frugal_alloc_preload.so" in os.environ.get("LD_PRELOAD", ""):
        # Where there is nothing to load, nothing was enabled.
        with contextlib.suppress(FrugalAllocError):
            load()
    return _loaded


def load() -> Library:
    """The library for the installed torch, loaded once.

    Raises:
        FrugalAllocError: there is no torch, or none with CUDA, or no library for this one.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
            atexit.register(_loaded.forget_python)
        return _loaded


def _load() -> Library:
    # Here, since importing frugal_alloc is to cost little: the hook does it in every process with FRUGAL_ALLOC=1.
    from .._common import installation

    try:
        torch = installation.find_cuda_torch()
        path = installation.find_library("alloc", torch)
    except installation.MissingPart as missing:
        raise FrugalAllocError(str(missing)) from None
    _import_torch()
    try:
        library = Library(str(path))
    except (OSError, AttributeError) as error:
        # The dynamic linker's words where the system's C or C++ library is too old.
        is_too_old = re.search(r"version `(GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found", str(error))
        remedy = (
            "this system is older than the one that it was built on: build frugal_alloc from its source here, "
            "or use a newer system"
            if is_too_old
            else "install frugal_alloc again in this environment"
        )
        raise FrugalAllocError(
            f"{path.name} does not load beside PyTorch {torch.version} ({error}); {remedy}"
        ) from None
    built, running = library.torch_versions()
    # A library that was built for another minor may load, and would then misread every call.
    if running not in (0, built):
        raise FrugalAllocError(
            f"{path.name} was built for torch {built // 100}.{built % 100}, but torch {running // 100}.{running % 100} "
            "is running; install frugal_alloc again in this environment"
        )
    return library


def _import_torch() -> None:
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FrugalAllocError(f"import torch fails here: {reason}") from None
