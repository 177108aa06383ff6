"""Settings: those of :func:`frugal_alloc.enable`, and what a program told PyTorch's allocator before.

The library parses and checks them (bindings/settings/settings.h); this module puts Python's values into its words.
"""

from __future__ import annotations

import functools
import os
import warnings
from typing import Any

from . import _native

# Entries to record for each device where it cannot be known what the program asked for: more than any plot can show.
LEAST_HISTORY = 1_000_000

# No GPU has so many bytes; a number of thousands of digits cannot even be written out.
_MOST_NUMBER = 1 << 63

_SWITCHES = ("track", "publish", "remap")
# What a number is, of which types it may be, and the unit of it in FRUGAL_ALLOC_CONF.
_NUMBERS: dict[str, tuple[str, tuple[type, ...], str]] = {
    "memory_limit": ("bytes", (int,), ""),
    "idle_release": ("seconds", (int, float), "s"),
    "driver_reserve": ("bytes", (int,), ""),
    "host_reserve": ("bytes", (int,), ""),
}

# What PyTorch's Python functions call to change settings in the middle of a run.
_PYTORCH_SETTERS = ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings")


def is_turned_off() -> bool:
    """FRUGAL_ALLOC=0: the user wants nothing of us, whatever the program asks for."""
    return os.environ.get("FRUGAL_ALLOC") == "0"


def to_text(**settings: Any) -> str:
    """The settings that are not None in the form of FRUGAL_ALLOC_CONF: numbers are bytes and seconds.

    Raises:
        FrugalAllocError: a value is of a type that cannot be one.
    """
    return ",".join(f"{name}:{_text_of(name, value)}" for name, value in settings.items() if value is not None)


def _text_of(name: str, value: Any) -> str:
    kind, number_types, unit = _NUMBERS.get(name, ("", (), ""))
    text = value
    if isinstance(value, bool):
        if name in _SWITCHES:
            text = "on" if value else "off"
    elif isinstance(value, number_types):
        if abs(value) < _MOST_NUMBER:
            text = f"{value}{unit}" if isinstance(value, int) else f"{value:.6f}{unit}"
    elif isinstance(value, os.PathLike) and not kind:
        text = os.fspath(value)
    # The library is to read all of it as one value: a comma begins another setting, a zero ends all.
    if not isinstance(text, str) or set(",\0") & set(text):
        possible = f"{kind} or a text as in FRUGAL_ALLOC_CONF" if kind else "a text without a comma"
        raise _native.FrugalAllocError(f"{name}={_shown(value)} is not possible; {name} is {possible}")
    return text


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except ValueError:  # a number of more digits than Python writes out
        return "such a number"


def warn_of_unfollowed(library: _native.Library, settings: str | None = None) -> None:
    """Warns of those of PyTorch's settings (None: its environment variable's) that do not hold for our memory."""
    if warning := library.unfollowed_settings(settings):
        warnings.warn(warning, RuntimeWarning, stacklevel=3)


def watch_pytorchs(library: _native.Library) -> None:
    """Warns also of settings that the program changes later."""
    import torch

    for name in _PYTORCH_SETTERS:
        setter = getattr(torch._C, name, None)
        if setter is None or hasattr(setter, "__wrapped__"):
            continue
        setattr(torch._C, name, _watched(setter, library))


def _watched(setter: Any, library: _native.Library) -> Any:
    @functools.wraps(setter)
    def change(settings: str) -> None:
        setter(settings)
        if library.is_enabled():
            warn_of_unfollowed(library, settings)

    return change


def recorded_history() -> int | None:
    """How many entries a recording of memory history that is under way has so far; None: there is none."""
    import torch

    if not torch.cuda.is_initialized() or not torch._C._cuda_isHistoryEnabled():
        return None
    return max((len(trace) for trace in torch.cuda.memory._snapshot()["device_traces"]), default=0)


def record_history_of_ours(library: _native.Library, entries: int) -> None:
    """Extends the recording that is under way to our memory, with Python's stacks: how it was asked for PyTorch does
    not tell."""
    import torch

    library.set_history_only_ours(True)
    try:
        torch.cuda.memory._record_memory_history(
            "all", context="all", stacks="python", max_entries=max(entries, LEAST_HISTORY)
        )
    finally:
        library.set_history_only_ours(False)
