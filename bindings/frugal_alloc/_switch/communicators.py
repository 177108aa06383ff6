"""Room for NCCL, which takes GPU memory of its own and fails where PyTorch's allocator holds all of it, in use or not.

A communicator takes memory when it is made, and more when a kind of collective is used for the first time. Nothing
tells the allocator, but PyTorch calls some functions of its own then.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from .. import _native
from . import pytorch

# What PyTorch calls with the group before a collective, by module: `import torch` imports these where it was built with
# torch.distributed. torch.compile knows the first as long as both modules have the same.
_BEFORE_COLLECTIVES = {
    "torch.distributed.distributed_c10d": "_rank_not_in_group",
    "torch.distributed": "_rank_not_in_group",
    "torch.nn.parallel.distributed": "_verify_param_shape_across_processes",
}


def make_room_for(library: _native.Library) -> None:
    """Has idle memory go back before a process group is made, and before the first collective of each kind in each.

    Done once. What C++ calls is not seen: docs/hardware.md.
    """
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if not hasattr(c10d, "_process_group_name"):
        return
    seen: set[tuple[int, CodeType]] = set()

    def make_room() -> None:
        if library.is_enabled():
            library.make_room()

    def naming(name_group: Callable[..., Any]) -> Callable[..., Any]:
        def name_new_group(*args: Any, **kwargs: Any) -> Any:
            seen.clear()  # it may get the id of one that is gone
            make_room()
            return name_group(*args, **kwargs)

        return name_new_group

    @functools.cache
    def with_room(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            kind = (id(args[0]) if args else 0, sys._getframe(1).f_code)
            if kind not in seen:
                seen.add(kind)
                make_room()
            return function(*args, **kwargs)

        return call

    pytorch.replace(c10d, "_process_group_name", naming)
    for module, name in _BEFORE_COLLECTIVES.items():
        pytorch.replace(sys.modules.get(module), name, with_room)
