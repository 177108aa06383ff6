"""CUDA graphs whose memory sleeps: to replay one is an error, and what NCCL has registered for them must stay awake."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from .. import _native

# Whether pools may sleep. Replays ask the library only then.
_may_sleep = False


def why_awake() -> str | None:
    """Why no memory of CUDA graphs can sleep in this process; None: it can.

    NCCL registers the buffers of collectives that are captured (NCCL_GRAPH_REGISTER, on by default), and goes on to use
    their physical memory: a replay after :func:`frugal_alloc.wake` would wait for ever.
    """
    distributed = sys.modules.get("torch.distributed")
    if os.environ.get("NCCL_GRAPH_REGISTER") == "0" or distributed is None:
        return None
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() < 2:
        return None
    groups = distributed.distributed_c10d._world.pg_backend_config.values()
    if not any("nccl" in str(backends) for backends in groups):
        return None
    return (
        "memory of CUDA graphs cannot sleep while NCCL may have registered it: set NCCL_GRAPH_REGISTER=0 before NCCL "
        "starts, or name tags of other memory"
    )


def guard_replays(library: _native.Library) -> None:
    """From now on a replay that needs memory that sleeps is an error."""
    global _may_sleep
    _may_sleep = True
    _guard(library)


def note_asleep(library: _native.Library) -> None:
    """Some sleep, or have woken."""
    global _may_sleep
    _may_sleep = bool(_unreadable(library))


def _unreadable(library: _native.Library) -> set[tuple[int, int]]:
    """The pools whose graphs need memory that sleeps, as torch.cuda.CUDAGraph.pool() has them."""
    return {(first, second) for gpu in library.asleep() for first, second in gpu["pools"]}


@functools.cache
def _guard(library: _native.Library) -> None:
    import torch

    replay = torch.cuda.CUDAGraph.replay

    @functools.wraps(replay)
    def replay_if_awake(self: Any) -> Any:
        if _may_sleep and tuple(self.pool()) in _unreadable(library):
            raise _native.FrugalAllocError(
                "memory that this CUDA graph may read sleeps: call frugal_alloc.wake() before it is replayed"
            )
        return replay(self)

    torch.cuda.CUDAGraph.replay = replay_if_awake
