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

# What PyTorch's Python functions call to change settings in the middle of a run.
_PYTORCH_SETTERS = ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings")


def is_turned_off() -> bool:
    """FRUGAL_ALLOC=0: the user wants nothing of us, whatever the program asks for."""
    return os.environ.get("FRUGAL_ALLOC") == "0"


def to_text(
    memory_limit: int | str | None = None,
    idle_release: float | str | None = None,
    track: bool | str | None = None,
    publish: bool | str | None = None,
    report_dir: str | os.PathLike[str] | None = None,
    suppressions: str | os.PathLike[str] | None = None,
    check: str | None = None,
    remap: bool | str | None = None,
    driver_reserve: int | str | None = None,
    host_reserve: int | str | None = None,
    driver_costs: str | os.PathLike[str] | None = None,
) -> str:
    """The settings that are not None in the form of FRUGAL_ALLOC_CONF: numbers are bytes and seconds.

    Raises:
        FrugalAllocError: a value is of a type that cannot be one.
    """
    entries = []
    numbers = (
        ("memory_limit", memory_limit, (int,), ""),
        ("idle_release", idle_release, (int, float), "s"),
        ("driver_reserve", driver_reserve, (int,), ""),
        ("host_reserve", host_reserve, (int,), ""),
    )
    for name, value, number_types, unit in (number for number in numbers if number[1] is not None):
        if isinstance(value, number_types) and not isinstance(value, bool) and abs(value) < _MOST_NUMBER:
            value = f"{value}{unit}" if isinstance(value, int) else f"{value:.6f}{unit}"
        if not _is_text(value):
            kind = "bytes" if unit == "" else "seconds"
            said = f"{name} is {kind} or a text as in FRUGAL_ALLOC_CONF"
            raise _native.FrugalAllocError(f"{name}={_shown(value)} is not possible; {said}")
        entries.append(f"{name}:{value}")
    texts = {
        "track": track,
        "publish": publish,
        "remap": remap,
        "check": check,
        "report_dir": report_dir,
        "suppressions": suppressions,
        "driver_costs": driver_costs,
    }
    for name, text in ((name, text) for name, text in texts.items() if text is not None):
        if name in _SWITCHES and isinstance(text, bool):
            text = "on" if text else "off"
        value = os.fspath(text) if isinstance(text, (str, os.PathLike)) else text
        if not _is_text(value):
            raise _native.FrugalAllocError(f"{name}={_shown(value)} is not possible; {name} is a text without a comma")
        entries.append(f"{name}:{value}")
    return ",".join(entries)


def _is_text(value: Any) -> bool:
    """Whether the library would read all of it as one value: a comma begins another setting, a zero ends all."""
    return isinstance(value, str) and not set(",\0") & set(value)


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
