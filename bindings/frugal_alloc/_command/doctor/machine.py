"""Where ``frugal-alloc doctor`` is: the driver with its GPUs, and the software beside them, without names of anybody.

The driver is asked by ctypes, so that no package is needed to say what is here; and for ``doctor --gpu`` in a process
of its own (``python -m frugal_alloc._command.doctor.machine`` prints JSON), since on the simulated GPU it can be
replaced only as a process starts.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from ctypes import byref, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import simulated_gpu

from ... import __version__
from ..._common import installation
from ..._common.installation import is_simulated
from ..._common.messages import Refused, on_one_line

PACKAGES = (Path(__file__).resolve().parents[3], Path(simulated_gpu.__file__).resolve().parents[1])
SIMULATED_MEMORY = 16 << 30
_LIBRARY = "libcuda.so.1"
# CUdevice_attribute of cuda.h.
_INTEGRATED, _VIRTUAL_MEMORY, _COMPUTE_CAPABILITY = 18, 102, (75, 76)
# Present where NVIDIA's kernel module, or Windows' GPU under WSL, is.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
_SECONDS = 120
# They would change what is measured: the probes set what they need.
_LEFT_OUT = ("FRUGAL_ALLOC", "FRUGAL_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_LEFT_OUT += ("PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "PYTHONSTARTUP")


class NoDriver(Exception):
    """There is no driver, or it shows no GPU; the message is one line that says what to do."""


class Shown(NamedTuple):
    """A GPU that the driver shows."""

    name: str
    memory_bytes: int
    is_integrated: bool
    has_virtual_memory: bool
    compute_capability: str


class Visible:
    """The driver: for which CUDA it is, and its GPUs."""

    def __init__(self) -> None:
        """
        Raises:
            NoDriver: there is none, it does not start, or it shows no GPU.
        """
        try:
            self._library = ctypes.CDLL(_LIBRARY)
        except OSError:
            raise NoDriver(f"no {_LIBRARY}; install NVIDIA's driver if there is a GPU here") from None
        self._call("cuInit", 0)
        version, count = self._number("cuDriverGetVersion"), self._number("cuDeviceGetCount")
        if count == 0:
            raise NoDriver("the driver shows no GPU; look at CUDA_VISIBLE_DEVICES")
        self.version = f"{version // 1000}.{version % 1000 // 10}"
        self.gpus = [self._shown(self._number("cuDeviceGet", number)) for number in range(count)]

    def memory_info(self) -> tuple[int, int]:
        """Free and all bytes of the first GPU, which has a context then."""
        context, free, total = c_void_p(), c_size_t(), c_size_t()
        self._call("cuDevicePrimaryCtxRetain", byref(context), self._number("cuDeviceGet", 0))
        self._call("cuCtxSetCurrent", context)
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def _shown(self, device: int) -> Shown:
        name, memory = ctypes.create_string_buffer(256), c_size_t()
        self._call("cuDeviceGetName", name, len(name), device)
        self._call("cuDeviceTotalMem_v2", byref(memory), device)
        has = [self._number("cuDeviceGetAttribute", which, device) == 1 for which in (_INTEGRATED, _VIRTUAL_MEMORY)]
        capability = ".".join(str(self._number("cuDeviceGetAttribute", part, device)) for part in _COMPUTE_CAPABILITY)
        return Shown(name.value.decode(errors="replace"), memory.value, *has, capability)

    def _number(self, name: str, *arguments: int) -> int:
        result = c_int()
        self._call(name, byref(result), *arguments)
        return result.value

    def _call(self, name: str, *arguments: Any) -> None:
        status, said = getattr(self._library, name)(*arguments), ctypes.c_char_p()
        if status != 0:
            self._library.cuGetErrorName(status, byref(said))
            text = (said.value or str(status).encode()).decode()
            raise NoDriver(f"{name} fails with {text}; look at nvidia-smi and CUDA_VISIBLE_DEVICES")


# --- For doctor --gpu.


def find(simulate: int | None = None, base: Mapping[str, str] = os.environ) -> tuple[dict[str, str], dict[str, Any]]:
    """The environment to measure in, on the GPU or without one on the simulated one, and its description.

    Args:
        simulate: bytes of a simulated GPU to use even where there is a real one.

    Raises:
        Refused: there is a GPU that does not work; or none, and no simulated one; or no torch, or one that is too new
            for the driver.
    """
    child = {name: value for name, value in base.items() if name not in _LEFT_OUT}
    # The probes do not run in the user's folder, from where Python would import first.
    others = (os.path.abspath(entry) for entry in base.get("PYTHONPATH", "").split(":") if entry)
    entries = [*map(str, PACKAGES), *others]
    child["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(entries))
    try:
        installation.find_cuda_torch()
        found = described(child) if simulate is None else {"has_driver": False}
        # A GPU that does not work is never replaced by the simulated one.
        if not found["has_driver"] and (simulate is not None or not any(map(os.path.exists, _DEVICE_FILES))):
            child = simulated_gpu.environment(simulate or SIMULATED_MEMORY, base=child)
            found = described(child)
    except (installation.MissingPart, simulated_gpu.SimulationError) as error:
        raise Refused(str(error)) from None
    if found["problem"]:
        raise Refused(found["problem"])
    cuda, wanted = (version.split(".")[0] for version in (found["driver_for_cuda"], found["software"]["cuda"]))
    # Within a major version of CUDA a driver carries newer programs; an older major version carries none of them.
    if int(cuda) < int(wanted):
        raise Refused(
            f"the driver is for CUDA {found['driver_for_cuda']}, and this torch for CUDA {found['software']['cuda']}: "
            f"update the driver, or install a torch for CUDA {cuda}"
        )
    return child, found


def described(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """What describe() finds in a process of its own: this one has no context then, and may fork.

    Raises:
        Refused: it does not end well.
    """
    command = [sys.executable, "-m", "frugal_alloc._command.doctor.machine"]
    options: dict[str, Any] = {"env": dict(environment), "cwd": "/", "stdin": subprocess.DEVNULL, "timeout": _SECONDS}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, **options)
    except subprocess.TimeoutExpired:
        raise Refused(f"the driver does not answer within {_SECONDS} s; look at nvidia-smi") from None
    if ended.returncode != 0:
        why = (ended.stderr.strip().splitlines() or [f"status {ended.returncode}"])[-1]
        raise Refused(f"the GPU cannot be asked what it is: {on_one_line(why)}")
    return json.loads(ended.stdout.splitlines()[-1])


def describe() -> dict[str, Any]:
    """The machine as this process sees it; under "problem" why there is no GPU for it."""
    torch = installation.find_torch()
    found: dict[str, Any] = {"simulated": is_simulated(), "problem": None, "has_driver": False}
    found["software"] = {
        "frugal_alloc": __version__,
        "torch": torch.version,
        "cuda": torch.cuda,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": "-".join(platform.libc_ver()),
    }
    try:
        visible = Visible()
        found["has_driver"] = True
        free, total = visible.memory_info()
    except NoDriver as error:
        return found | {"problem": str(error)}
    first = visible.gpus[0]
    return found | {
        "gpu": first.name,
        "gpus": len(visible.gpus),
        "memory_bytes": total,
        "free_bytes": free,
        "compute_capability": first.compute_capability,
        "virtual_memory": first.has_virtual_memory,
        "driver_for_cuda": visible.version,
        "driver": None if is_simulated() else _kernel_module(),
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
