"""What the stories' programs share: their options, the choice of the allocator, and the memory of each step."""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

ALLOCATORS = ("native", "expandable", "frugal")


def parser(description: str) -> argparse.ArgumentParser:
    """With the options that all have; begins with the first line of what describes the program."""
    made = argparse.ArgumentParser(description=description.partition("\n")[0])
    made.add_argument("--allocator", choices=ALLOCATORS, default="native")
    made.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write what was found to this file")
    return made


def count(text: str) -> int:
    """An argument that is a number above zero."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return int(text)


def use(allocator: str) -> None:
    """Before CUDA starts: PyTorch's own allocator, the same with expandable segments, or frugal_alloc."""
    if allocator == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    elif allocator == "expandable":
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")


def tell(train: Callable[[bool], None]) -> None:
    """Trains with frugal_alloc, as the program was found or with --healed, and says how much memory that took."""
    made = argparse.ArgumentParser()
    made.add_argument("--healed", action="store_true")
    options = made.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    use("frugal")
    train(options.healed)
    print(f"peak: {torch.cuda.max_memory_allocated() / (1 << 20):.0f} MiB")


def end(file: pathlib.Path | None, error: str | None, **found: Any) -> int:
    """Writes what was found, and the error of memory that ran out, if there is a file for it.

    Returns the exit status.
    """
    if file is not None:
        file.write_text(json.dumps({"error": error, **found}), encoding="utf-8")
    return 0 if error is None else 1


class Course:
    """The memory of each step: the most in use, and the most that the allocator held, in bytes."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.error: str | None = None
        torch.cuda.reset_peak_memory_stats()

    def run(self, steps: int, step: Callable[[], object], name: str = "step") -> None:
        """So many, or until memory runs out; then the error tells of the step."""
        while len(self.steps) < steps and self.error is None:
            try:
                step()
            except torch.OutOfMemoryError as error:
                print(f"{name} {len(self.steps) + 1}: {error}", file=sys.stderr)
                self.error = str(error)
            self.steps.append((torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()))
            torch.cuda.reset_peak_memory_stats()

    def end(self, file: pathlib.Path | None, **found: Any) -> int:
        """Writes it as JSON with what else was `found`. Returns the exit status."""
        failed_in = len(self.steps) if self.error else None
        gpu = torch.cuda.get_device_properties(0).total_memory
        return end(file, self.error, failed_in=failed_in, gpu_bytes=gpu, steps=self.steps, **found)
