"""Where a run takes place: the folder that it writes into, the environment of its processes, the GPU, its driver and
what software is beside it. Nothing in it names a machine or person.

As a program (``python -m frugal_alloc._command.doctor.machine``) it prints the description as JSON. The driver is
asked in a process of its own, since on the simulated GPU it can be replaced only as a process starts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import site
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import __version__
from ..._common import installation
from ..._common.messages import Refused, on_one_line
from ..._simulation import simulated_gpu
from . import driver, processes
from .step import write_json

PACKAGES = Path(__file__).resolve().parents[3]
# Present where NVIDIA's kernel module, or Windows' GPU under WSL, is.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
_SECONDS = 120
_THIS = "frugal_alloc._command.doctor.machine"
SIMULATED_MEMORY = 16 << 30
# They would change what is measured, or belong to whoever runs it: the steps set what they need.
_LEFT_OUT = (
    "FRUGAL_ALLOC",
    "FRUGAL_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "PYTHONSTARTUP",
)
# Where programs leave something, by the folder of the run's that they leave it in.
_PLACES = {
    "home": ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    "tmp": ("TMPDIR",),
    "cache": ("XDG_CACHE_HOME",),
    "cache/cuda": ("CUDA_CACHE_PATH",),
    "cache/triton": ("TRITON_CACHE_DIR",),
    "cache/inductor": ("TORCHINDUCTOR_CACHE_DIR",),
    "cache/cupy": ("CUPY_CACHE_DIR",),
}


class CannotRun(Refused):
    """The check cannot run here; the message is one line that says what to do."""


# --- The folder and the environment.


def prepare(out: Path) -> Path:
    """Makes the folder, empty, and tries it.

    Raises:
        CannotRun: it cannot be written, or has files of somebody's.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise CannotRun(f"{out} is not empty; name a new folder with --out")
        for name in ("steps", "tmp", "home", "cache"):
            (out / name).mkdir()
        write_json(out / "results.json", {})
    except OSError as error:
        why = error.strerror or error
        raise CannotRun(f"{out} cannot be written ({why}); name another folder with --out") from None
    return out.resolve()


def environment(out: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For the processes of a run into `out`: what they would leave elsewhere lands there.

    Raises:
        CannotRun: Python cannot be told where we are.
    """
    if os.pathsep in str(PACKAGES):
        raise CannotRun(f"the path of the check has a {os.pathsep} in it, put it elsewhere: {PACKAGES}")
    result = {name: value for name, value in base.items() if name not in _LEFT_OUT}
    result |= {variable: str(out / place) for place, variables in _PLACES.items() for variable in variables}
    # Where a torch that was installed with pip --user is found follows from HOME.
    result["PYTHONUSERBASE"] = base.get("PYTHONUSERBASE") or site.getuserbase()
    if _has_bytecode("torch"):
        result["PYTHONDONTWRITEBYTECODE"] = "1"
    else:
        # Each process would compile all of torch, which takes longer than most steps do.
        result.pop("PYTHONDONTWRITEBYTECODE", None)
        result["PYTHONPYCACHEPREFIX"] = str(out / "cache" / "python")
    entries = [str(PACKAGES), *filter(None, base.get("PYTHONPATH", "").split(os.pathsep))]
    result["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(entries))
    return result


def _has_bytecode(module: str) -> bool:
    """Whether whoever installed it left it compiled; also where it is not there at all."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        return True
    return Path(importlib.util.cache_from_source(found.origin)).exists()


# --- The GPU and its driver.


def describe() -> dict[str, Any]:
    """The machine as this process sees it; under "problem" why there is no GPU for it."""
    found: dict[str, Any] = {"simulated": processes.is_simulated(), "problem": None, "software": _software()}
    try:
        gpu = driver.Driver()
    except driver.NoDriver as error:
        return found | {"problem": str(error), "has_device_files": any(Path(file).exists() for file in _DEVICE_FILES)}
    try:
        return found | _of_gpu(gpu)
    except driver.DriverError as error:
        return found | {"problem": f"{error}; look at nvidia-smi", "has_device_files": True}


def _of_gpu(gpu: driver.Driver) -> dict[str, Any]:
    with gpu.primary_context():
        free, total = gpu.memory_info()
        return {
            "gpu": gpu.name,
            "gpus": gpu.count,
            "memory_bytes": total,
            "free_bytes": free,
            "compute_capability": "{}.{}".format(*gpu.compute_capability()),
            "multiprocessors": gpu.attribute(driver.MULTIPROCESSORS),
            "virtual_memory": gpu.attribute(driver.VIRTUAL_MEMORY) == 1,
            "driver_for_cuda": gpu.version,
            "driver": None if processes.is_simulated() else _kernel_module(),
        }


def find(environment: Mapping[str, str], simulate: int | None) -> tuple[dict[str, str], dict[str, Any]]:
    """The environment to run steps in, on the GPU or without one on the simulated one, and its description.

    Args:
        simulate: bytes of a simulated GPU to use even where there is a real one.

    Raises:
        CannotRun: there is a GPU that does not work; or none, and no simulated one; or no torch, or one that is too new
            for the driver.
    """
    child = dict(environment)
    try:
        installation.find_cuda_torch()
        if simulate is not None:
            child = simulated_gpu.environment(simulate, base=environment)
        found = json_of(_THIS, child)
        if found["problem"] and not found["has_device_files"] and simulate is None:
            child = simulated_gpu.environment(SIMULATED_MEMORY, base=environment)
            found = json_of(_THIS, child)
    except (installation.MissingPart, simulated_gpu.SimulationError) as error:
        raise CannotRun(str(error)) from None
    if found["problem"]:
        raise CannotRun(found["problem"])
    cuda, wanted = (version.split(".")[0] for version in (found["driver_for_cuda"], found["software"]["cuda"]))
    # Within a major version of CUDA a driver carries newer programs; an older major version carries none of them.
    if int(cuda) < int(wanted):
        raise CannotRun(
            f"the driver is for CUDA {found['driver_for_cuda']}, and this torch for CUDA {found['software']['cuda']}: "
            f"update the driver, or install a torch for CUDA {cuda}"
        )
    return child, found


def json_of(module: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What a program prints that asks the driver.

    Raises:
        CannotRun: it does not end well.
    """
    # Not in the user's folder, from where Python would import first.
    ended = processes.run([sys.executable, "-m", module], _SECONDS, environment, Path(environment["TMPDIR"]))
    if ended.status is None:
        raise CannotRun(f"the driver does not answer within {_SECONDS} s; look at nvidia-smi")
    if ended.status != 0:
        said = ended.err.strip().splitlines()
        why = on_one_line(said[-1]) if said else f"status {ended.status}"
        raise CannotRun(f"the GPU cannot be asked what it is: {why}")
    return json.loads(ended.out.splitlines()[-1])


def _software() -> dict[str, str | None]:
    torch = installation.find_torch()
    return {
        "frugal_alloc": __version__,
        "torch": torch.version,
        "cuda": torch.cuda,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": "-".join(platform.libc_ver()),
    }


def _kernel_module() -> str | None:
    """The version of NVIDIA's kernel module, which the driver API does not tell."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    version = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    kind = " (open)" if "Open Kernel Module" in text else ""
    return version[1] + kind if version else None


if __name__ == "__main__":
    print(json.dumps(describe()))
