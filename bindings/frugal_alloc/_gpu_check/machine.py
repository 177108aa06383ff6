"""Where a run takes place: the GPU, its driver and what software is beside it. Nothing in it names a machine or person.

As a program (``python -m frugal_alloc._gpu_check.machine``) it prints this as JSON. The driver is asked in a process of
its own, since on the simulated GPU it can be replaced only as a process starts.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from .._common import installation
from .._common.messages import on_one_line
from .._simulation import simulated_gpu
from . import conditions, driver, driver_functions, kit, nvml
from .child import is_simulated
from .surroundings import CannotRun

# Present where NVIDIA's kernel module, or Windows' GPU under WSL, is.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
_SECONDS = 120
SIMULATED_MEMORY = 16 << 30
#: NVIDIA's driver shows a few MiB of a GPU that nobody uses; the least context takes more than this.
_NOBODYS = 64 << 20


def describe() -> dict[str, Any]:
    """The machine as this process sees it; under "problem" why there is no GPU for it."""
    found: dict[str, Any] = {"simulated": is_simulated(), "problem": None}
    found["software"] = _software()
    try:
        gpu = driver.Driver()
    except driver_functions.NoDriver as error:
        return found | {"problem": str(error), "has_device_files": any(Path(file).exists() for file in _DEVICE_FILES)}
    try:
        return found | _of_gpu(gpu)
    except driver_functions.DriverError as error:
        return found | {"problem": f"{error}; look at nvidia-smi", "has_device_files": True}


def _of_gpu(gpu: driver.Driver) -> dict[str, Any]:
    others = nvml.use(gpu.pci_bus_id())  # before this process has a context
    with gpu.primary_context():
        free, total = gpu.memory_info()
        return {
            "gpu": gpu.name(),
            "gpus": gpu.count,
            "memory_bytes": total,
            "free_bytes": free,
            "others": others and others._asdict(),
            "compute_capability": "{}.{}".format(*gpu.compute_capability()),
            "multiprocessors": gpu.attribute(driver.MULTIPROCESSORS),
            "virtual_memory": gpu.attribute(driver.VIRTUAL_MEMORY) == 1,
            "driver_for_cuda": gpu.version,
            "driver": None if is_simulated() else _kernel_module(),
            "conditions": conditions.of(gpu),
        }


def is_nobody_elses(where: Mapping[str, Any]) -> bool:
    """Whether nobody else uses the GPU that was described, not even a screen; not so where NVML cannot say it."""
    others = where["others"]
    return others is not None and others["processes"] == 0 and others["used_bytes"] < _NOBODYS


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
        found = _described(child)
        if found["problem"] and not found["has_device_files"] and simulate is None:
            child = simulated_gpu.environment(SIMULATED_MEMORY, base=environment)
            found = _described(child)
    except (installation.MissingPart, simulated_gpu.SimulationError) as error:
        raise CannotRun(str(error)) from None
    if found["problem"]:
        raise CannotRun(found["problem"])
    _check_driver(found["driver_for_cuda"], found["software"]["cuda"])
    return child, found


def _check_driver(driver: str, torch: str) -> None:
    """Within a major version of CUDA a driver carries newer programs; an older major version carries none of them.

    Raises:
        CannotRun: the driver is too old for this torch.
    """
    if int(driver.split(".")[0]) < int(torch.split(".")[0]):
        raise CannotRun(
            f"the driver is for CUDA {driver}, and this torch for CUDA {torch}: update the driver, or install a torch "
            f"for CUDA {driver.split('.')[0]}"
        )


def _described(environment: Mapping[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", __name__ if __name__ != "__main__" else "frugal_alloc._gpu_check.machine"]
    try:
        # Not in the user's folder, from where Python would import first.
        done = subprocess.run(
            command, cwd=environment["TMPDIR"], env=environment, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise CannotRun(f"the driver does not answer within {_SECONDS} s; look at nvidia-smi") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        ended = on_one_line(said[-1]) if said else f"status {done.returncode}"
        raise CannotRun(f"the GPU cannot be asked what it is: {ended}")
    return json.loads(done.stdout.splitlines()[-1])


def _software() -> dict[str, str | None]:
    torch = installation.find_torch()
    return {
        "frugal_alloc": __version__,
        "commit": kit.commit(),
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
