"""Libraries beside PyTorch in frugal_alloc's memory, and NVIDIA's sanitizer; what is not installed is skipped.

Each program computes by a library that knows nothing of our memory, in a process of its own, and fails if the values
are wrong. Where it fails with PyTorch's own allocator, too, it says nothing of ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from hardware.on_gpu import SIMULATED

_SECONDS = 240
_COUNT = 1 << 20
#: The exit status of a program that the library itself keeps from beginning; the reason is the last line of stderr.
_NOT_OFFERED = 77
#: A variable: with NATIVE the program is the control, in memory of PyTorch's own allocator.
_ALLOCATOR, _NATIVE = "FRUGAL_CHECK_ALLOCATOR", "native"
# JAX takes three quarters of the GPU at its start otherwise.
_ENVIRONMENT = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
_COMPILERS = ("cc", "gcc", "clang")
_SANITIZERS = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer", "/opt/cuda/bin/compute-sanitizer")


def tool(names: tuple[str, ...]) -> str:
    """The first of them that is here; skips the test if none is."""
    found = next(filter(None, map(shutil.which, names)), None)
    return found or pytest.skip(f"there is no {names[0]} here")


def ended(program: str, *prefix: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-m", "hardware.on_gpu", __name__, program, "[]"]
    options: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "timeout": _SECONDS}
    return subprocess.run(command, env=_ENVIRONMENT | variables, **options)


@pytest.mark.parametrize(
    ("program", "needs"),
    [
        ("triton", ("triton",)),
        ("compiled", ("triton",)),
        ("cupy", ("cupy",)),
        ("jax", ("jax", "jaxlib")),
        ("lightning", ("lightning",)),
    ],
)
def test_library_computes_in_our_memory(program: str, needs: tuple[str, ...]) -> None:
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if "triton" in needs:
        tool(_COMPILERS)
    if SIMULATED and program != "lightning":
        pytest.skip("the simulated GPU runs no kernels of its own")
    done = ended(program)
    if done.returncode == _NOT_OFFERED:
        pytest.skip(done.stderr.strip().rpartition("\n")[2])
    if done.returncode != 0:
        if ended(program, **{_ALLOCATOR: _NATIVE}).returncode != 0:
            pytest.skip(f"it does not run with PyTorch's own allocator, either: {done.stderr.strip()[-300:]}")
        pytest.fail(done.stdout + done.stderr)


@pytest.mark.skipif(SIMULATED, reason="the simulated GPU runs no kernels of its own")
def test_sanitizer_finds_no_errors_that_expandable_segments_do_not_have() -> None:
    """It raises false alarms where two handles meet; so expandable segments are the control."""
    ours = errors("sanitized")
    if ours == 0:
        return
    theirs = errors("unsanitary", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    if theirs is None:
        pytest.skip(f"the control does not end here; errors with ours: {ours}")
    assert ours and theirs, f"errors with ours {ours}, with expandable segments {theirs}"


def errors(program: str, **variables: str) -> int | None:
    """That the sanitizer counts; None if it did not come to its end."""
    try:
        done = ended(program, tool(_SANITIZERS), "--tool", "memcheck", **variables)
    except subprocess.TimeoutExpired as error:
        pytest.skip(str(error))
    found = re.search(r"ERROR SUMMARY: (\d+) error", done.stdout + done.stderr)
    return int(found[1]) if found else None


def test_program_whose_values_are_wrong_fails_and_one_that_is_not_offered_is_told_apart() -> None:
    assert [ended(program).returncode for program in ("wrong", "absent")] == [1, _NOT_OFFERED]


# --- The programs.


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        _not_offered(f"{name} does not load: {error}")


def _not_offered(why: str) -> None:
    print(" ".join(why.split()), file=sys.stderr)
    sys.exit(_NOT_OFFERED)


def _numbers() -> Any:
    import frugal_alloc
    import torch

    ours = os.environ.get(_ALLOCATOR) != _NATIVE
    if ours:
        frugal_alloc.enable()
    numbers = torch.arange(_COUNT, dtype=torch.float32, device="cuda")
    assert not ours or frugal_alloc._native.load().owns(numbers.data_ptr()), "it is not in frugal_alloc's memory"
    return numbers


def _check(found: Any, expected: Any) -> None:
    import torch

    assert torch.equal(found, expected), "this is not what PyTorch computes"


def triton() -> None:
    kernels = _imported("hardware.triton_kernels")
    numbers = _numbers()
    _check(kernels.doubled(numbers), numbers * 2)


def cupy() -> None:
    import torch

    library = _imported("cupy")
    numbers = _numbers()
    doubled = torch.from_dlpack(library.from_dlpack(numbers) * 2)
    library.cuda.Device().synchronize()
    _check(doubled, numbers * 2)


def jax() -> None:
    import torch

    library = _imported("jax")
    if library.default_backend() != "gpu":
        _not_offered("this JAX is without CUDA")
    numbers = _numbers()
    torch.cuda.synchronize()
    doubled = (library.dlpack.from_dlpack(numbers) * 2).block_until_ready()
    _check(torch.from_dlpack(doubled).to(numbers.device), numbers * 2)


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
    assert trainer.global_step == 16
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
        assert sums == [tensor.numel() * iteration for tensor in held], "memory does not hold what was written there"
        del held
        torch.cuda.empty_cache()


def wrong() -> None:
    import torch

    _check(torch.zeros(2), torch.ones(2))


def absent() -> None:
    _imported("no_such_module_anywhere")
