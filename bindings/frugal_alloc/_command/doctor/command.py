"""``frugal-alloc doctor``: what is here, what works, and what to do about the rest. One line for each, or JSON."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import simulated_gpu

from ... import __version__
from ..._common import installation
from ..._common.arguments import Parser
from ..._common.messages import format_bytes
from .. import startup_hook
from .machine import NoDriver, Visible, is_simulated

_TRIAL_MEMORY = 1 << 30
_TRIAL_SECONDS = 120

_TRIAL = """
import torch, frugal_alloc
frugal_alloc.enable()
tensor = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory_allocated() == tensor.nbytes, torch.cuda.memory_allocated()
del tensor
assert torch.cuda.memory_allocated() == 0, torch.cuda.memory_allocated()
torch.cuda.synchronize()
library = frugal_alloc._native.load()
print(library.host_memory(torch.cuda.current_device()))
print(library.broken_promise(torch.cuda.current_device()))
print(library.settings())
"""


class Condition(enum.Enum):
    GOOD = "ok"
    # Something is lost, and the rest works.
    LESS = "less"
    MISSING = "missing"


@dataclasses.dataclass(frozen=True)
class Check:
    subject: str
    condition: Condition
    # What was found; with LESS and MISSING, also what to do.
    finding: str


def add(parser: Parser) -> None:
    parser.description = (
        "Looks at Python, torch, the driver, the GPU and this package, and says whether each will do. With --gpu it "
        "measures instead, for two minutes, what the driver does, and says whether that is safe: exit status 0 if so, "
        "1 if not."
    )
    parser.add_argument("--gpu", action="store_true", help="measure the GPU's driver and say whether it is safe here")
    parser.add_argument("--json", action="store_true", help="print a JSON object, as a bug report needs it")
    parser.add_argument(
        "--keep", metavar="FILE", help="with --gpu: write what calls cost here, for the setting driver_costs:FILE"
    )


def carry_out(options: argparse.Namespace) -> int:
    """Prints every check as it is done, or all as one object. The status is 0 whatever they say: it is a report."""
    if options.gpu:
        from . import gpu as doctor_gpu

        return doctor_gpu.main(options.json, options.keep)
    if options.keep is not None:
        options.error("--keep goes with --gpu")
    if options.json:
        rows = [
            {"subject": check.subject, "verdict": check.condition.value, "finding": check.finding} for check in checks()
        ]
        print(json.dumps({"frugal_alloc": __version__, "checks": rows}, indent=1))
        return 0
    for check in checks():
        print(f"{check.condition.value:8}{check.subject:15}{check.finding}", flush=True)
    return 0


def checks() -> Iterator[Check]:
    yield Check("python", Condition.GOOD, f"{platform.python_version()}, {sys.executable}")
    libc = " ".join(platform.libc_ver()).strip() or "an unknown C library"
    yield Check("system", Condition.GOOD, f"{platform.system()} {platform.release()}, {platform.machine()}, {libc}")
    torch = yield from _check_torch()
    yield from _check_libraries(torch)
    yield from _check_simulated_gpu(torch)
    gpus = yield from _check_gpu()
    yield _check_hook()
    yield _check_switch()
    yield from _check_trial(torch, gpus)


def _check_torch() -> Iterator[Check]:
    try:
        torch = installation.find_torch()
    except installation.MissingPart as error:
        yield Check("torch", Condition.MISSING, str(error))
        return None
    if torch.hip is None and torch.cuda is not None:
        yield Check("torch", Condition.GOOD, f"{torch.version} for CUDA {torch.cuda}, {torch.folder}")
        return torch
    built = "for ROCm" if torch.hip is not None else "without CUDA"
    yield Check("torch", Condition.MISSING, f"{torch.version} is built {built}; install a CUDA build of it")
    return None


def _check_libraries(torch: installation.Torch | None) -> Iterator[Check]:
    for kind, subject in (("alloc", "allocator"), ("replay", "replay")):
        built = ", ".join(installation.built_minors(kind)) or "none"
        if torch is None:
            condition = Condition.GOOD if built != "none" else Condition.MISSING
            yield Check(subject, condition, f"libraries for torch {built}")
            continue
        try:
            yield Check(subject, Condition.GOOD, str(installation.find_library(kind, torch)))
        except installation.MissingPart as error:
            yield Check(subject, Condition.MISSING, str(error))


def _check_simulated_gpu(torch: installation.Torch | None) -> Iterator[Check]:
    try:
        folder = simulated_gpu.libraries()
    except simulated_gpu.SimulationError as error:
        yield Check("simulated GPU", Condition.MISSING, str(error))
        return
    runtime = f"libcudart.so.{torch.cuda.split('.')[0]}" if torch else "libcudart.so.13"
    if (folder / runtime).exists():
        yield Check("simulated GPU", Condition.GOOD, str(folder))
    else:
        yield Check("simulated GPU", Condition.MISSING, f"{folder} has no {runtime}, which this torch needs")


def _check_gpu() -> Iterator[Check]:
    """Returns the number of GPUs."""
    advice = "frugal-alloc simulate runs programs without one"
    try:
        visible = Visible()
    except NoDriver as error:
        yield Check("driver", Condition.MISSING, str(error))
        yield Check("GPU", Condition.MISSING, f"not visible; {advice}")
        return 0
    simulated = " (simulated)" if is_simulated() else ""
    yield Check("driver", Condition.GOOD, f"for CUDA {visible.version}{simulated}")
    for number, gpu in enumerate(visible.gpus):
        of_host = " of the host's memory" if gpu.is_integrated else ""
        what = f"{gpu.name}, {format_bytes(gpu.memory_bytes)}{of_host}"
        if gpu.has_virtual_memory:
            yield Check(f"GPU {number}", Condition.GOOD, f"{what}, virtual memory management")
        else:
            yield Check(
                f"GPU {number}",
                Condition.LESS,
                f"{what}, no virtual memory management: whole segments are allocated, and free pieces of different "
                "ones cannot be joined",
            )
    return len(visible.gpus)


def _check_hook() -> Check:
    path = startup_hook.path()
    if startup_hook.is_installed():
        return Check("hook", Condition.GOOD, f"{path}; programs started with FRUGAL_ALLOC=1 enable the allocator")
    return Check("hook", Condition.GOOD, "not installed; with it FRUGAL_ALLOC=1 enables the allocator")


def _check_switch() -> Check:
    value = os.environ.get("FRUGAL_ALLOC", "")
    if value == "0":
        return Check("FRUGAL_ALLOC", Condition.LESS, "0, so nothing enables the allocator; unset it to use it")
    if value not in ("", "1"):
        return Check("FRUGAL_ALLOC", Condition.MISSING, f"{value} is not possible; it is 0 (off) or 1 (on)")
    return Check("FRUGAL_ALLOC", Condition.GOOD, value or "not set")


def _check_trial(torch: installation.Torch | None, gpus: int) -> Iterator[Check]:
    """Enables the allocator in a process of its own, on the GPU or else on the simulated one, and uses it."""
    if torch is None:
        return
    environment, where = dict(os.environ), "the GPU"
    environment.pop("FRUGAL_ALLOC", None)
    if gpus == 0 or is_simulated():
        where = "the simulated GPU"
    if gpus == 0:
        try:
            environment = simulated_gpu.environment(_TRIAL_MEMORY, base=environment)
        except simulated_gpu.SimulationError:
            yield Check("trial", Condition.MISSING, "neither a GPU nor the simulated one to try it on")
            return
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL], env=environment, capture_output=True, text=True, timeout=_TRIAL_SECONDS
        )
    except subprocess.TimeoutExpired:
        yield Check("trial", Condition.MISSING, f"no answer within {_TRIAL_SECONDS} s on {where}")
        return
    if trial.returncode == 0:
        yield Check("trial", Condition.GOOD, f"enabled, allocated and freed 64 MiB on {where}")
        host, promise, settings = trial.stdout.rstrip("\n").split("\n")[-3:]
        if host:
            yield Check("unified memory", Condition.GOOD, host)
        if promise:
            yield Check("driver's word", Condition.LESS, promise)
        yield Check("settings", Condition.GOOD, settings)
    else:
        reason = trial.stderr.strip().split("\n")[-1] or f"status {trial.returncode}"
        yield Check("trial", Condition.MISSING, f"on {where}: {reason}")
