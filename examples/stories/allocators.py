"""What the stories' programs share: the choice of the allocator, and what it holds from step to step."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any, Literal

import torch

Allocator = Literal["native", "expandable", "frugal"]
ALLOCATORS: tuple[Allocator, ...] = ("native", "expandable", "frugal")


def use(allocator: Allocator) -> None:
    """Before CUDA starts: PyTorch's own allocator, the same with expandable segments, or frugal_alloc."""
    if allocator == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    elif allocator == "expandable":
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")


def count(text: str) -> int:
    """An argument that is a number above zero."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return int(text)


class Course:
    """The memory of each step: the most in use, and the most that the allocator held, in bytes."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int]] = []
        torch.cuda.reset_peak_memory_stats()

    def step(self) -> None:
        self._steps.append((torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()))
        torch.cuda.reset_peak_memory_stats()

    def write(self, file: pathlib.Path | None, **more: Any) -> None:
        """As JSON with `more`, if there is a file to write it to."""
        if file is not None:
            gpu = torch.cuda.get_device_properties(0).total_memory
            file.write_text(json.dumps({**more, "gpu_bytes": gpu, "steps": self._steps}), encoding="utf-8")
