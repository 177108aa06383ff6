"""CUDA graphs whose memory sleeps: to replay one is an error, and what NCCL has registered for them must stay awake."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from .. import _native

# The pools that sleep, as torch.cuda.CUDAGraph.pool() has them.
_asleep: frozenset[tuple[int, int]] = frozenset()


def why_awake() -> str | None:
    """Why no memory of CUDA graphs can sleep in this process; None: it can.

    NCCL registers the buffers of collectives that are captured (NCCL_GRAPH_REGISTER, on by default), and goes on to use
    their physical memory: a replay after :func:`frugal_alloc.wake` would wait for ever.
    """
    distributed = sys.modules.get("torch.distributed")
    if os.environ.get("NCCL_GRAPH_REGISTER") == "0" or distributed is None:
        return None
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    if "nccl" not in distributed.get_backend_config():
        return None
    return (
        "memory of CUDA graphs cannot sleep while NCCL may have registered it: set NCCL_GRAPH_REGISTER=0 before NCCL "
        "starts, or name tags of other memory"
    )


def note_asleep(library: _native.Library) -> None:
    """Some sleep, or have woken."""
    global _asleep
    _asleep = frozenset((first, second) for gpu in library.asleep() for first, second in gpu["pools"])
    if _asleep:
        _guard_replays()


@functools.cache
def _guard_replays() -> None:
    import torch

    torch.cuda.CUDAGraph.replay = _replaying_what_is_awake(torch.cuda.CUDAGraph.replay)


def _replaying_what_is_awake(replay: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(replay)
    def replay_if_awake(self: Any) -> Any:
        if _asleep and tuple(self.pool()) in _asleep:
            raise _native.FrugalAllocError(
                "the memory of this CUDA graph sleeps: call frugal_alloc.wake() before it is replayed"
            )
        return replay(self)

    return replay_if_awake
