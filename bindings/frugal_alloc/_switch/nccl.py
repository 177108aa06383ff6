"""NCCL's registration of memory, as torch.distributed asks for it.

A pool that is registered (``register_mem_pool``) is PyTorch's own memory, and is registered as ever. Registering
*every* segment is possible with the setting remap:off alone: NCCL keeps what it finds at an address, while ours is
otherwise mapped anew as it is needed. PyTorch leaves it out with expandable segments, too.
"""

from __future__ import annotations

import os
import sys
import warnings

# PyTorch's variable, and its older name.
_VARIABLES = ("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK")
_YES = ("1", "t", "true", "y", "yes")


def leave_out_registration() -> None:
    """Turns the registration of all memory off, with a warning, if PyTorch cannot have read yet that it is on.

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
