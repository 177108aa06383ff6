"""Kernels of the probes: sources, those in kernels/ among them, compiled for the device when a step begins."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from .driver import Driver
from .driver_functions import DriverError, LaunchAttribute, LaunchConfiguration
from .nvrtc import Compiler, NvrtcError

SOURCES = Path(__file__).resolve().parent / "kernels"
_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class Kernel:
    """A kernel with its grid and arguments, which are all integers; launched as often as one likes."""

    def __init__(self, gpu: Driver, function: int, grid: int, block: int, arguments: Sequence[ctypes._SimpleCData]):
        self._gpu, self._function, self._grid, self._block = gpu, function, grid, block
        self._arguments = list(arguments)
        self._pointers = (ctypes.c_void_p * len(self._arguments))(
            *(ctypes.cast(ctypes.pointer(one), ctypes.c_void_p) for one in self._arguments)
        )
        self._launch = gpu.function("cuLaunchKernel")

    def set(self, place: int, value: int) -> None:
        """The argument, from the next launch on."""
        self._arguments[place].value = value

    def launch(self, stream: int) -> None:
        status = self._launch(self._function, self._grid, 1, 1, self._block, 1, 1, 0, stream, self._pointers, None)
        self._gpu.check("cuLaunchKernel", status)

    def launch_dependent(self, stream: int) -> None:
        """It may begin while the kernel before it still runs, and waits for its writes by griddepcontrol.wait."""
        attribute = LaunchAttribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION, value=1)
        configuration = LaunchConfiguration(
            grid=(self._grid, 1, 1),
            block=(self._block, 1, 1),
            stream=stream,
            attributes=ctypes.pointer(attribute),
            attribute_count=1,
        )
        self._gpu.call("cuLaunchKernelEx", ctypes.byref(configuration), self._function, self._pointers, None)


class Module:
    """Kernels that have been loaded."""

    def __init__(self, gpu: Driver, module: int) -> None:
        self._gpu, self._module = gpu, module

    def kernel(self, name: str, grid: int, block: int, *arguments: ctypes._SimpleCData) -> Kernel:
        """`arguments`: c_uint64 for addresses and counts, c_uint for words."""
        function = self._gpu.made("cuModuleGetFunction", self._module, name.encode())
        return Kernel(self._gpu, function, grid, block, arguments)


def compiled(gpu: Driver, name: str, folder: Path = SOURCES) -> bytes:
    """The module of FOLDER/NAME.cu, for loading later."""
    return _compiled(folder / f"{name}.cu", gpu.compute_capability())


@functools.cache
def _compiled(file: Path, capability: tuple[int, int]) -> bytes:
    return Compiler().compile(file.read_text(), file.name, capability)


def load(gpu: Driver, code: bytes) -> int:
    """The module of what was compiled.

    Raises:
        NvrtcError: the driver knows nothing of what this compiler makes.
    """
    try:
        return gpu.made("cuModuleLoadData", code)
    except DriverError as error:
        if error.is_foreign_code:
            raise NvrtcError(f"NVRTC and the driver do not go together: {error}") from None
        raise


@contextlib.contextmanager
def loaded(gpu: Driver, name: str, folder: Path = SOURCES) -> Iterator[Module]:
    """The kernels of FOLDER/NAME.cu."""
    module = load(gpu, compiled(gpu, name, folder))
    try:
        yield Module(gpu, module)
    finally:
        gpu.undo("cuModuleUnload", module)
