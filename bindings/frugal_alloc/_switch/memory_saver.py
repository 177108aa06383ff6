"""torch_memory_saver: ours stands in for it, or the user learns that the library pauses nothing of ours."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings

from .._common import startup


@functools.cache
def stand_in() -> None:
    """Sees to its import: one that was before, or one that will be."""
    startup.stand_in_for_memory_saver()
    startup.after_import("torch_memory_saver", _warn_of_the_library)


def _warn_of_the_library() -> None:
    if sys.modules["torch_memory_saver"].__name__ != "torch_memory_saver":
        return
    # A program may have made warnings errors, which is no reason for its import to fail.
    with contextlib.suppress(RuntimeWarning):
        warnings.warn(
            "torch_memory_saver's pause() frees nothing of frugal_alloc's memory; import it after "
            "frugal_alloc.enable(), with FRUGAL_TORCH_MEMORY_SAVER=1 in the environment, to have frugal_alloc's "
            "stand-in for it, which does",
            RuntimeWarning,
            stacklevel=2,
        )
