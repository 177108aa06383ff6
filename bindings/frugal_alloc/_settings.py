"""What a program told PyTorch's allocator before frugal_alloc took its place."""

from __future__ import annotations

import os
import re
import warnings

from . import _native

# The later one is read only if the earlier is not set, as PyTorch does it.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")

# Ways of native's of keeping fragmentation down, which is what we replace. Others are followed (the memory fraction)
# or are not about the memory that we serve (pinned memory, the backend, CUDA graphs).
IGNORED = (
    "expandable_segments",
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "release_lock_on_cudamalloc",
    "large_segment_size_mb",
)

# Entries to record for each device where it cannot be known what the program asked for: more than any plot can show.
LEAST_HISTORY = 1_000_000

_warned = False


def ignored_settings(environment: dict[str, str] | os._Environ[str] = os.environ) -> list[str]:
    """The names of the settings that the program made and that frugal_alloc does not follow."""
    text = next((environment[name] for name in VARIABLES if name in environment), "")
    keys = set(re.findall(r"(\w+)\s*:", text))
    ignored = [key for key in IGNORED if key in keys]
    if environment.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        ignored.append("PYTORCH_NO_CUDA_MEMORY_CACHING")
    return ignored


def warn_of_ignored_settings() -> None:
    """Names them in one warning, once in the life of the process."""
    global _warned
    ignored = ignored_settings()
    if _warned or not ignored:
        return
    _warned = True
    warnings.warn(
        f"frugal_alloc does not follow {', '.join(ignored)}: they go on to hold for CUDA graphs and memory pools only",
        RuntimeWarning,
        stacklevel=3,
    )


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
