"""An assertion that a part of a program leaves no more memory in use than it found."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

from .. import _native
from .._common.messages import format_bytes
from . import site_changes, users_lines

MOST_LINES = 10


class LeakError(AssertionError):
    """More GPU memory is in use than at the beginning of a :func:`frugal_alloc.no_leaks` block."""


class NoLeaks(contextlib.ContextDecorator):
    """The context manager; see :func:`frugal_alloc.no_leaks`."""

    def __init__(self, allow_bytes: int) -> None:
        self._allow_bytes = allow_bytes
        self._in_use: list[dict[int, int]] = []
        self._sites: list[dict[tuple[int, int], int]] = []

    def _recreate_cm(self) -> NoLeaks:
        return type(self)(self._allow_bytes)

    def __enter__(self) -> NoLeaks:
        gc.collect()
        # What cuBLAS keeps goes first: the line that made it holds less afterwards, and may be the one that leaks.
        self._in_use.append(_in_use())
        library = _native.loaded()
        self._sites.append({} if library is None else site_changes.live_bytes(library))
        if library is not None:
            library.record_in_detail()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        before, sites = self._in_use.pop(), self._sites.pop()
        if kind is not None:
            return
        gc.collect()
        after = _in_use()
        grown = {gpu: size - before.get(gpu, 0) for gpu, size in after.items()}
        if sum(size for size in grown.values() if size > 0) <= self._allow_bytes:
            return
        raise LeakError(_message(grown, sites))


def _in_use() -> dict[int, int]:
    """Bytes in tensors on each GPU, in whoever's memory they are."""
    import torch

    if not torch.cuda.is_initialized():
        return {}
    clear_workspaces()
    return {gpu: torch.cuda.memory_allocated(gpu) for gpu in range(torch.cuda.device_count())}


def clear_workspaces() -> None:
    """Lets go of what cuBLAS keeps to work in: the first product on a stream takes it, whoever's that is.

    Not while there are CUDA graphs, which may have been captured with one.
    """
    import torch

    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    has_graphs = any(issubclass(kind, torch.cuda.CUDAGraph) for kind in set(map(type, gc.get_objects())))
    if clear is not None and not has_graphs and not torch.cuda.is_current_stream_capturing():
        clear()


def _message(grown: dict[int, int], sites: dict[tuple[int, int], int]) -> str:
    parts = [f"{format_bytes(size)} on GPU {gpu}" for gpu, size in grown.items() if size > 0]
    lines = [f"GPU memory is still in use that was not before: {', '.join(parts)}"]
    library = _native.loaded()
    if library is None:
        return f"{lines[0]} (frugal_alloc.enable() before it would tell the lines)"
    by_line = site_changes.by_line(library, sites, site_changes.live_bytes(library))
    lines += [f"  {format_bytes(size):>11}  {place}" for place, size in list(by_line.items())[:MOST_LINES]]
    if len(by_line) > MOST_LINES:
        lines.append(f"  and {len(by_line) - MOST_LINES} more lines")
    total = sum(size for size in grown.values() if size > 0)
    # What lines hold in small blocks is estimated once there are many.
    if (rest := total - sum(by_line.values())) > total // 10:
        lines.append(
            f"  {format_bytes(rest):>11}  {users_lines.NO_LINE} (memory of CUDA graphs or a MemPool, or track is off)"
        )
    return "\n".join(lines)
