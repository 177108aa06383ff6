"""Memory that is not mapped: :func:`frugal_alloc.cuda_malloc`."""

from __future__ import annotations

import contextlib

from .. import _native


class CudaMalloc(contextlib.ContextDecorator):
    """What this thread allocates within it is cudaMalloc's. May be nested and, as a decorator, recursive."""

    def __init__(self) -> None:
        self._entered: list[_native.Library | None] = []

    def __enter__(self) -> CudaMalloc:
        library = _native.loaded()
        if library is not None:
            library.cuda_malloc(True)
        self._entered.append(library)
        return self

    def __exit__(self, *error: object) -> None:
        library = self._entered.pop()
        if library is not None:
            library.cuda_malloc(False)

    def _recreate_cm(self) -> CudaMalloc:
        # Each call of a decorated function, in each thread, has its own.
        return type(self)()
