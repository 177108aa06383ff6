"""Collectives under the modes that compute values: whoever carries one out, as NCCL's stand-in or gloo, moves the data.

To compute one as an operator would be to call it twice. What a CUDA graph has captured of NCCL's is done by its replay,
which runs nothing itself where all values are computed: then it is one of the graph's computations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import torch

from .computation import Call, is_cuda, leaves
from .contents import Content, contents

NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd")
MOST_MOVED = 1 << 20  # bytes, as simulated_gpu/libraries/nccl_call.h has it


def is_collective(func: Any) -> bool:
    return func._schema.name.partition("::")[0] in NAMESPACES


def _written_and_read(call: Call) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The tensors that it writes, and those that this rank gives to others; the same ones where it works in place."""
    given = [[leaf for leaf in leaves(value) if is_cuda(leaf)] for value in call.args]
    given = [tensors for tensors in given if tensors]
    if call.func._schema.name.startswith("_c10d_functional"):
        return [leaf for leaf in leaves(call.result) if is_cuda(leaf)], [leaf for tensors in given for leaf in tensors]
    # What is written comes first in all of them.
    return (given[0], given[-1]) if given else ([], [])


def run_and_tell(call: Call) -> Any:
    """Runs it, and tells what is in the memory that it has written: what was in what it has read."""
    result = call.run()
    targets, sources = _written_and_read(call)
    moved = all(tensor.numel() * tensor.element_size() <= MOST_MOVED for tensor in sources)
    read = {contents.of(tensor) for tensor in sources} if moved else {Content.LEFT}
    worst = next((content for content in (Content.LEFT, Content.MADE_UP) if content in read), Content.KNOWN)
    for tensor in targets:
        contents.record(tensor, worst)
    return result


class CapturedCollective:
    """One that NCCL's stand-in keeps for a graph, as a computation of the graph's."""

    name = "nccl"

    def __init__(self, number: int) -> None:
        self._number = number

    def compute_and_store(self) -> None:
        ctypes.CDLL(None).ncclSimulatedReplay(self._number)


_seen = 0


def newly_captured() -> Iterator[CapturedCollective]:
    """What has been captured since the last time that this was asked."""
    global _seen
    library = ctypes.CDLL(None)
    if not hasattr(library, "ncclSimulatedCaptures"):
        return
    captured = library.ncclSimulatedCaptures()
    for number in range(_seen, captured):
        yield CapturedCollective(number)
    _seen = captured
