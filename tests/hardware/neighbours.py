"""P8: libraries beside PyTorch in frugal_alloc's memory, and NVIDIA's sanitizer; what is not installed is skipped."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from typing import NamedTuple

from frugal_alloc._command.doctor import processes
from frugal_alloc._command.doctor.step import Needs, StepReport

from .neighbour_programs import ALLOCATOR, NATIVE, NOT_OFFERED

_LEAST_SECONDS = 15.0
#: The sanitizer, under which torch loads slowly.
_LEAST_SANITIZER_SECONDS = 30.0
#: What had less may have needed more: this step gets what others leave.
_AMPLE_SECONDS = 60.0
# JAX takes three quarters of the GPU at its start otherwise.
_OF_ALL = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
_SANITIZERS = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer", "/opt/cuda/bin/compute-sanitizer")
_ERRORS = re.compile(r"ERROR SUMMARY: (\d+) error")


class _Neighbour(NamedTuple):
    title: str
    program: str
    #: Modules and programs without which it cannot be tried; of the programs one is enough.
    modules: tuple[str, ...]
    tools: tuple[str, ...] = ()
    #: It runs on the simulated GPU, too.
    on_simulated: bool = False


#: The sanitizer looks at all of our memory: where there is time for it, it comes before what is only one library more.
_NEIGHBOURS = (
    _Neighbour("Triton", "triton", ("triton",), ("cc", "gcc", "clang")),
    _Neighbour("compute-sanitizer", "sanitized", (), _SANITIZERS),
    _Neighbour("torch.compile, reduce-overhead", "compiled", ("triton",), ("cc", "gcc", "clang")),
    _Neighbour("CuPy through DLPack", "cupy", ("cupy",)),
    _Neighbour("JAX through DLPack", "jax", ("jax", "jaxlib")),
    _Neighbour("Lightning", "lightning", ("lightning",), on_simulated=True),
)


def run(report: StepReport) -> None:
    for neighbour in _NEIGHBOURS:
        if why := lacking(neighbour.modules, neighbour.tools):
            report.skip(neighbour.title, why)
        elif report.simulated and not neighbour.on_simulated:
            report.not_shown(neighbour.title, "the simulated GPU runs no kernels of its own")
        elif report.seconds_left() < (_LEAST_SANITIZER_SECONDS if neighbour.tools is _SANITIZERS else _LEAST_SECONDS):
            report.skip(neighbour.title, "no time was left")
        elif neighbour.tools is _SANITIZERS:
            _sanitize(report, neighbour.title)
        else:
            _carry_out(report, neighbour)


def lacking(modules: tuple[str, ...], tools: tuple[str, ...]) -> str:
    """Which of the modules is not here, or that none of the tools is; "" where all is well."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    if tools and not any(map(shutil.which, tools)):
        return f"there is no {tools[0]} here"
    return ""


def _carry_out(report: StepReport, neighbour: _Neighbour) -> None:
    given = report.seconds_left()
    ended = _started(report, neighbour.program, [], **_OF_ALL)
    if ended.status is None:
        if given < _AMPLE_SECONDS:
            report.skip(neighbour.title, f"not done in the {given:.0f} s that were left")
        else:
            report.overrun(neighbour.title)
        return
    if (last := ended.out.strip().rpartition("\n")[2]).startswith(NOT_OFFERED):
        report.skip(neighbour.title, last.removeprefix(NOT_OFFERED))
        return
    needs = Needs.CALLS if neighbour.on_simulated else Needs.VALUES
    if _is_done(ended):
        report.check(neighbour.title, True, "it runs in our memory", needs)
    elif _is_done(_started(report, neighbour.program, [], **{**_OF_ALL, ALLOCATOR: NATIVE})):
        report.check(neighbour.title, False, ended.said, needs)
    else:
        report.skip(neighbour.title, f"it does not run with PyTorch's own allocator, either: {ended.said}")


def _is_done(ended: processes.Ended) -> bool:
    return ended.status == 0 and ended.out.rstrip().endswith("done")


def _sanitize(report: StepReport, title: str) -> None:
    """The sanitizer raises false alarms where two handles meet; so expandable segments are the control."""
    tool = next(filter(None, map(shutil.which, _SANITIZERS)))
    prefix = [tool, "--tool", "memcheck"]
    # Half of the time is for others.
    ended = _started(report, "sanitized", prefix, share=0.5)
    if ended.status is None:
        report.skip(title, "not done in half of the time that was left")
        return
    ours = _errors(ended)
    if ours == 0:
        report.check(title, True, "no errors with ours", Needs.VALUES)
        return
    control = _started(report, "unsanitary", prefix, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    theirs = _errors(control)
    if theirs is None:
        report.skip(title, f"the control does not end here: {control.said}; errors with ours {_counted(ours)}")
    else:
        said = f"errors with ours {_counted(ours)}, with expandable segments {theirs}"
        report.check(title, bool(ours and theirs), said, Needs.VALUES)


def _started(
    report: StepReport, program: str, prefix: list[str], share: float = 1.0, **variables: str
) -> processes.Ended:
    """`share`: of the time that is left."""
    command = [*prefix, sys.executable, "-m", "hardware.neighbour_programs", program]
    ended = processes.run(command, share * report.seconds_left(), {**os.environ, **variables}, report.folder)
    whose = "_native" if variables.get(ALLOCATOR) == NATIVE else ""
    (report.folder / f"{program}{whose}.txt").write_text(ended.out + ended.err)
    return ended


def _errors(ended: processes.Ended) -> int | None:
    """None: the sanitizer did not come to its end."""
    found = _ERRORS.search(ended.out + ended.err)
    return int(found[1]) if found else None


def _counted(errors: int | None) -> str:
    return "not counted, since the sanitizer did not end" if errors is None else str(errors)
