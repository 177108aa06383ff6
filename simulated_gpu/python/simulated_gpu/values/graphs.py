"""Computations that a CUDA graph captures, and that each of its replays does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .collectives import CapturedCollective, newly_captured
from .computation import Computation
from .mode import wrap

# The computations of the graphs being captured, by the id of the capture; a graph's way back is captured by another
# thread than its way forth.
_captures: dict[int, list[Computation | CapturedCollective]] = {}


def _capture_id() -> int:
    """Of the capture that the current stream takes part in; 0 if none."""
    status, id = ctypes.c_int(), ctypes.c_ulonglong()
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    # The simulated GPU's own, which takes the streams of CUDA 12 as well.
    ctypes.CDLL(None).cudaStreamGetCaptureInfo(stream, ctypes.byref(status), ctypes.byref(id), None, None, None, None)
    return id.value if status.value != 0 else 0


def add(computation: Computation) -> None:
    """To the graph that the current stream is captured into."""
    _captures.setdefault(_capture_id(), []).extend([*newly_captured(), computation])


def _capture_end(wrapped: Callable, graph: Any) -> None:
    _captures.setdefault(_capture_id(), []).extend(newly_captured())
    graph._frugal_computations = _captures.pop(_capture_id(), [])
    wrapped(graph)


_capturing = 0  # graphs, of any thread


def _begin(wrapped: Callable, *args: Any, **kwargs: Any) -> None:
    global _capturing
    wrapped(*args, **kwargs)
    _capturing += 1


def _end(wrapped: Callable, *args: Any, **kwargs: Any) -> None:
    global _capturing
    _capturing -= 1
    wrapped(*args, **kwargs)


def is_capturing() -> bool:
    """Whether the current stream is being captured; asks only while a graph is: it is a call that counts."""
    return _capturing > 0 and torch.cuda.is_current_stream_capturing()


def watch() -> None:
    """From here on, is_capturing() knows."""
    wrap(torch.cuda.CUDAGraph, "capture_begin", _begin)
    wrap(torch.cuda.CUDAGraph, "capture_end", _end)


def start(compute: Callable[[Computation], None]) -> None:
    """From here on, a graph's computations are done whenever it is replayed."""

    def replay(wrapped: Callable, graph: Any) -> None:
        # The computations are the whole of the graph's effect: its recorded fills and copies must not run as well.
        library = ctypes.CDLL(None)
        library.frugal_sim_set_graph_execution(0)
        try:
            wrapped(graph)
        finally:
            library.frugal_sim_set_graph_execution(1)
        with _disable_current_modes(), torch.no_grad():
            for computation in getattr(graph, "_frugal_computations", []):
                compute(computation)

    wrap(torch.cuda.CUDAGraph, "capture_end", _capture_end)
    wrap(torch.cuda.CUDAGraph, "replay", replay)
