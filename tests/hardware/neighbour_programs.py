"""Programs of other libraries beside ours: ``python -m hardware.neighbour_programs NAME``.

Each computes in frugal_alloc's memory, or as a control in PyTorch's own, by a library that knows nothing of it, and
raises if the values are wrong.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from typing import Any

_COUNT = 1 << 20
#: Before the reason, in the last line of a program that the library itself keeps from beginning.
NOT_OFFERED = "not offered: "
#: A variable: with NATIVE the program is the control, in memory of PyTorch's own allocator.
ALLOCATOR, NATIVE = "FRUGAL_CHECK_ALLOCATOR", "native"


class _NotOffered(Exception):
    pass


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise _NotOffered(f"{name} does not load: {error}") from None


def _numbers() -> Any:
    import frugal_alloc
    import torch

    ours = os.environ.get(ALLOCATOR) != NATIVE
    if ours:
        frugal_alloc.enable()
    numbers = torch.arange(_COUNT, dtype=torch.float32, device="cuda")
    if ours and not frugal_alloc._native.load().owns(numbers.data_ptr()):
        raise AssertionError("the tensor is not in frugal_alloc's memory")
    return numbers


def _check(found: Any, expected: Any, what: str) -> None:
    import torch

    if not torch.equal(found, expected):
        raise AssertionError(f"{what} is not what PyTorch computes")


def triton() -> None:
    kernels = _imported("hardware.triton_kernels")
    numbers = _numbers()
    _check(kernels.doubled(numbers), numbers * 2, "what the Triton kernel wrote")


def cupy() -> None:
    import torch

    library = _imported("cupy")
    numbers = _numbers()
    doubled = torch.from_dlpack(library.from_dlpack(numbers) * 2)
    library.cuda.Device().synchronize()
    _check(doubled, numbers * 2, "what CuPy computed")


def jax() -> None:
    import torch

    library = _imported("jax")
    if library.default_backend() != "gpu":
        raise _NotOffered("this JAX is without CUDA")
    numbers = _numbers()
    torch.cuda.synchronize()
    doubled = (library.dlpack.from_dlpack(numbers) * 2).block_until_ready()
    _check(torch.from_dlpack(doubled).to(numbers.device), numbers * 2, "what JAX computed")


def lightning() -> None:
    import torch

    library = _imported("lightning.pytorch")
    numbers = _numbers()

    class Module(library.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(64, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.layer(batch).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    loader = torch.utils.data.DataLoader(torch.ones(256, 64), batch_size=32)
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = library.Trainer(accelerator="cuda", devices=1, max_epochs=2, default_root_dir=folder, **quiet)
        trainer.fit(Module(), loader)
    if trainer.global_step != 16:
        raise AssertionError(f"{trainer.global_step} steps were made, and not 16")
    del numbers


def compiled() -> None:
    import torch

    numbers = _numbers()

    def step(values: Any) -> Any:
        return (values * 2 + 1).sin()

    fast = torch.compile(step, mode="reduce-overhead")
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        torch.testing.assert_close(fast(numbers), step(numbers))


def sanitized() -> None:
    """For compute-sanitizer."""
    _numbers()
    unsanitary()


def unsanitary() -> None:
    """Memory that is split, joined, moved and unmapped, and every byte of it written, with any allocator."""
    import torch

    unit = 5 << 20
    for iteration in range(3):
        held = [torch.full((unit,), iteration, dtype=torch.uint8, device="cuda") for _ in range(12)]
        del held[::2]
        held.append(torch.full((5 * unit,), iteration, dtype=torch.uint8, device="cuda"))
        sums = [int(tensor.sum()) for tensor in held]
        if sums != [tensor.numel() * iteration for tensor in held]:
            raise AssertionError("memory does not hold what was written there")
        del held
        torch.cuda.empty_cache()


PROGRAMS = {program.__name__: program for program in (triton, cupy, jax, lightning, compiled, sanitized, unsanitary)}

if __name__ == "__main__":
    try:
        PROGRAMS[sys.argv[1]]()
        print("done", flush=True)
    except _NotOffered as reason:
        print(NOT_OFFERED + " ".join(str(reason).split()), flush=True)
