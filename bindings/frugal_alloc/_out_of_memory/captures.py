"""Memory that a CUDA graph or a MemPool keeps although every tensor in it has gone: nobody else can have it."""

from __future__ import annotations

import bisect
import functools

from .. import _native


class PrivatePools:
    """The private pools of PyTorch's own allocator on one GPU, as they are when first asked about."""

    def __init__(self, gpu: int) -> None:
        self._gpu = gpu

    def are_there(self) -> bool:
        """Whether a graph may be replayed. It reads its inputs where they were, which no variable tells."""
        return bool(self._segments[0])

    def keep(self, address: int) -> bool:
        """Whether memory there stays with a pool when it is freed."""
        starts, ends = self._segments
        at = bisect.bisect_right(starts, address) - 1
        return at >= 0 and address < ends[at]

    @functools.cached_property
    def _segments(self) -> tuple[list[int], list[int]]:
        """Where they begin and end, in the order of addresses."""
        import torch

        library = _native.loaded()
        if library is None or not library.stats(self._gpu)["native_reserved_bytes"]:
            return [], []
        found = sorted(
            (segment["address"], segment["address"] + segment["total_size"])
            for segment in torch.cuda.memory_snapshot()
            if segment["device"] == self._gpu and any(segment.get("segment_pool_id", ()))
        )
        return [start for start, _ in found], [end for _, end in found]
