"""Kernels of the probes: sources, those in kernels/ among them, compiled for the device when a step begins.

NVRTC compiles them, which torch's wheels bring: CUDA source text to what this device's driver loads.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator, Sequence
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from ..._common import installation
from ..._simulation import nvrtc_files
from .driver import Driver, DriverError, LaunchAttribute, LaunchConfiguration
from .step import CannotTell

SOURCES = Path(__file__).resolve().parent / "kernels"
_PROGRAMMATIC_STREAM_SERIALIZATION = 6
_NVRTC = "libnvrtc.so"
_SYSTEM = ("libnvrtc.so.13", "libnvrtc.so.12")


class NvrtcError(CannotTell):
    """There is no NVRTC, or it does not compile; the message is one line."""


class Compiler:
    def __init__(self) -> None:
        """
        Raises:
            NvrtcError: none is found.
        """
        self._library = _load()
        self._library.nvrtcGetErrorString.restype = c_char_p

    def compile(self, source: str, name: str, capability: tuple[int, int]) -> bytes:
        """A module for a device of this compute capability: its machine's code, or PTX where the compiler is older than
        the device."""
        number = capability[0] * 10 + capability[1]
        known = self._architectures()
        if number in known:
            return self._compile(source, name, f"sm_{number}", "CUBIN")
        older = [each for each in known if each < number]
        if not older:
            raise NvrtcError(f"NVRTC knows no architecture as old as sm_{number}; install a torch for this GPU")
        return self._compile(source, name, f"compute_{max(older)}", "PTX")

    def _compile(self, source: str, name: str, architecture: str, kind: str) -> bytes:
        program = c_void_p()
        self._check("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), c_int(0), None, None)
        try:
            options = (c_char_p * 2)(f"--gpu-architecture={architecture}".encode(), b"--std=c++17")
            if self._library.nvrtcCompileProgram(program, c_int(len(options)), options) != 0:
                log = self._get(program, "ProgramLog").decode(errors="replace").strip("\0\n").splitlines()
                raise NvrtcError(f"{name} does not compile for {architecture}: {log[0] if log else 'no reason given'}")
            return self._get(program, kind)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _get(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        self._check(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._check(f"nvrtcGet{what}", program, text)
        return text.raw

    def _architectures(self) -> list[int]:
        count = c_int()
        self._check("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        known = (c_int * count.value)()
        self._check("nvrtcGetSupportedArchs", known)
        return list(known)

    def _check(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise NvrtcError(f"{name} fails with {self._library.nvrtcGetErrorString(status).decode()}")


def _load() -> ctypes.CDLL:
    tried = ""
    for path in _in_packages():
        try:
            nvrtc_files.load_builtins(path)
            return ctypes.CDLL(path)
        except OSError as error:
            tried = str(error)
    for name in _SYSTEM:
        # Where the linker finds it by its name, it finds the builtins by theirs.
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise NvrtcError(
        f"no {_NVRTC} that loads, in torch's packages or the system{': ' if tried else ''}{tried}; "
        "install the nvidia-cuda-nvrtc package that belongs to this torch"
    )


def _in_packages() -> Iterator[str]:
    """Those of the torch that would be imported come first."""
    folders = [entry for entry in sys.path if entry]
    with contextlib.suppress(installation.MissingPart):
        folders.insert(0, str(installation.find_torch().folder.parent))
    return nvrtc_files.find(folders)


class Kernel:
    """A kernel with its grid and arguments, which are all integers; launched as often as one likes."""

    def __init__(self, gpu: Driver, function: int, grid: int, block: int, arguments: Sequence[ctypes._SimpleCData]):
        self._gpu, self._function, self._grid, self._block = gpu, function, grid, block
        self._arguments = list(arguments)
        pointers = (ctypes.cast(ctypes.pointer(argument), c_void_p) for argument in self._arguments)
        self._pointers = (c_void_p * len(self._arguments))(*pointers)
        self._launch = gpu.function("cuLaunchKernel")

    def set(self, place: int, value: int) -> None:
        """The argument, from the next launch on."""
        self._arguments[place].value = value

    def launch(self, stream: int) -> None:
        status = self._launch(self._function, self._grid, 1, 1, self._block, 1, 1, 0, stream, self._pointers, None)
        self._gpu.check("cuLaunchKernel", status)

    def launch_dependent(self, stream: int) -> None:
        """It may begin while the kernel before it still runs, and waits for its writes by griddepcontrol.wait."""
        attribute = ctypes.pointer(LaunchAttribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION, value=1))
        grid, block = (self._grid, 1, 1), (self._block, 1, 1)
        configuration = LaunchConfiguration(grid, block, stream=stream, attributes=attribute, attribute_count=1)
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
