"""What a program told PyTorch before, or tells it later, and how that holds for our memory: its allocator's settings, a
recording of memory history, NCCL's registration, tensors that are shared."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from .. import _native
from .._tracking import received

# Entries to record for each device where it cannot be known what the program asked for: more than any plot can show.
LEAST_HISTORY = 1_000_000
# What PyTorch's Python functions call to change settings in the middle of a run.
_PYTORCH_SETTERS = ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings")
# What tells them (torch 2.12).
_PYTORCH_GETTER = "_accelerator_getAllocatorSettings"
# PyTorch's variable, and its older name.
_VARIABLES = ("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK")
_YES = ("1", "t", "true", "y", "yes")


def warn_of_unfollowed(library: _native.Library, settings: str | None = None) -> None:
    """Warns of those of PyTorch's settings (None: its environment variable's) that do not hold for our memory."""
    if warning := library.unfollowed_settings(settings):
        warnings.warn(warning, RuntimeWarning, stacklevel=3)


def follow_settings(library: _native.Library) -> None:
    """Lets what the program tells PyTorch later hold for our memory, too, or be warned of; done once.

    Programs turn ``expandable_segments`` off around memory that others are to open, and on again. Where PyTorch's
    settings are read they say that it is on while our memory, which is mapped likewise, serves.
    """
    import torch

    for name in _PYTORCH_SETTERS:
        replace(torch._C, name, lambda setter: _followed(setter, library))
    replace(torch._C, _PYTORCH_GETTER, lambda getter: lambda: library.shown_settings(getter()))


def replace(module: Any, name: str, make: Callable[[Any], Any], is_static: bool = False) -> None:
    """Replaces a function that the module may have, or a static one of a class, unless it has been replaced."""
    function = getattr(module, name, None)
    if function is not None and not hasattr(function, "__wrapped__"):
        made = functools.wraps(function)(make(function))
        setattr(module, name, staticmethod(made) if is_static else made)


def _followed(setter: Any, library: _native.Library) -> Any:
    def change(settings: str) -> None:
        setter(settings)
        is_turned_off = library.follow_settings(settings)
        if library.is_enabled():
            warn_of_unfollowed(library, settings)
            if is_turned_off:
                _warn_of_cuda_malloc()

    return change


@functools.cache
def _warn_of_cuda_malloc() -> None:
    # Most programs turn it on again; one that does not would never learn why its memory is in pieces.
    warnings.warn(
        "expandable_segments:False: all new memory is cudaMalloc's, which cannot be remapped, until the program sets "
        "expandable_segments:True; frugal_alloc.cuda_malloc() does the same for a block of code",
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


def leave_out_registration() -> None:
    """Turns NCCL's registration of all memory off, with a warning, if PyTorch cannot have read yet that it is on.

    A pool that is registered (``register_mem_pool``) is PyTorch's own memory, and is registered as ever. Registering
    *every* segment is possible with the setting remap:off alone: NCCL keeps what it finds at an address, while ours is
    otherwise mapped anew as it is needed. PyTorch leaves it out with expandable segments, too.

    Otherwise the library hides its memory from whoever would register it, and says so.
    """
    asked = [name for name in _VARIABLES if os.environ.get(name, "").lower() in _YES]
    distributed = sys.modules.get("torch.distributed")
    begun = distributed is not None and distributed.is_available() and distributed.is_initialized()
    if not asked or begun:
        return
    for name in asked:
        os.environ[name] = "0"
    warnings.warn(
        f"frugal_alloc does not follow {asked[0]}: NCCL cannot register memory that is remapped; what is to be "
        "registered goes into a torch.cuda.MemPool (register_mem_pool), or set remap:off",
        RuntimeWarning,
        stacklevel=3,
    )


def move_before_sharing(library: _native.Library) -> None:
    """Lets every storage move to a segment of cudaMalloc before another process is to have it. Done once; does nothing
    to memory that is not ours. torch.multiprocessing, and whatever else shares, calls ``_share_cuda_``.

    Mapped as our memory is, another process could open it only with a file descriptor for each handle and by a system
    call that ordinary containers refuse. An address that was taken before, by a captured graph or another library, is
    then no longer the tensor's.
    """
    import torch

    def moving(share: Any) -> Any:
        def share_where_others_can_open(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> tuple:
            if self.is_cuda:
                library.make_shareable(self._cdata)
                library.shared.add(self.data_ptr())
            return share(self, *args, **kwargs)

        return share_where_others_can_open

    replace(torch.UntypedStorage, "_share_cuda_", moving)


def note_received() -> None:
    """Notes what other processes share with this one. Done once. CUDA is started first, and native is not asked before
    whether it records history, since PyTorch 2.11 ends with a segmentation fault else."""
    import torch

    def opening(open_shared: Any) -> Any:
        def start_and_open(*args: Any, **kwargs: Any) -> Any:
            torch.cuda.init()
            storage = open_shared(*args, **kwargs)
            received.note(storage)
            return storage

        return start_and_open

    replace(torch.UntypedStorage, "_new_shared_cuda", opening, is_static=True)
    replace(torch._C, "_cuda_isHistoryEnabled", lambda ask: lambda: torch.cuda.is_initialized() and ask())
