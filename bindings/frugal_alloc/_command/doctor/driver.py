"""A GPU by NVIDIA's cuda-bindings: its memory as the driver maps it, streams, events, and kernels that NVRTC compiles.

The package is imported as a GPU is opened. Every status is looked at, and errors carry the driver's own names. A call
lets go of Python's lock, so threads wait for each other only inside the driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..._common import installation

MIB, GIB = 1 << 20, 1 << 30
PAGE = 2 * MIB
KERNELS = Path(__file__).resolve().parent / "kernels"
ADDRESS, COUNT, WORD = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint
_OUT_OF_MEMORY, _NOT_SUPPORTED = 2, 801
# No code for this GPU, PTX that does not assemble, and PTX of a newer CUDA.
_FOREIGN_CODE = (209, 218, 222)


class CannotTell(Exception):
    """The software that a question needs is not there or does not suit: nothing is known of the GPU."""


class DriverError(Exception):
    """A call failed; the message has the driver's words."""

    def __init__(self, call: str, status: int, name: str, text: str) -> None:
        super().__init__(f"{call} fails with {name} ({text})")
        self.call, self.name = call, name
        self.is_unsupported = status == _NOT_SUPPORTED
        self.is_out_of_memory = status == _OUT_OF_MEMORY
        self.is_foreign_code = status in _FOREIGN_CODE


class Export(NamedTuple):
    """Who else can have memory: network cards, and other processes."""

    rdma: bool
    shareable: bool


class Kernel(NamedTuple):
    """A kernel with its grid and the types of its arguments, which are all integers."""

    function: Any
    types: tuple[type, ...]
    grid: int
    block: int


class Driver:
    """The driver's functions, by their names in cuda.h without versions, and the first GPU that it shows."""

    def __init__(self) -> None:
        """
        Raises:
            CannotTell: cuda-bindings is not installed.
        """
        self.cuda = _cuda("driver")
        self.call("cuInit", 0)
        self.device = self.call("cuDeviceGet", 0)

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function makes, if anything; handles and addresses as it gives them."""
        return self.check(name, self.answer(name, *arguments))

    def answer(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        """The status of the call, and what it makes."""
        try:
            return getattr(self.cuda, name)(*arguments)
        except (AttributeError, RuntimeError) as error:  # so cuda-bindings says that the driver does not have it
            why = str(error).strip().partition("\n")[0]
            raise DriverError(name, _NOT_SUPPORTED, "no such function", why) from None

    def check(self, name: str, answer: tuple[Any, ...]) -> Any:
        status, *made = answer
        if status != 0:
            raise self.error(name, status)
        return made[0] if len(made) == 1 else made

    def error(self, call: str, status: Any) -> DriverError:
        name, text = (getattr(self.cuda, ask)(status)[1] for ask in ("cuGetErrorName", "cuGetErrorString"))
        return DriverError(call, int(status), (name or b"an unknown error").decode(), (text or b"").decode())

    def undo(self, name: str, *arguments: Any) -> None:
        """A call that cleans up. On the way out of an error, which it may fail with, too, the error is what counts."""
        answer = self.answer(name, *arguments)
        if sys.exc_info()[0] is None:
            self.check(name, answer)

    @contextlib.contextmanager
    def lent(self, made: Any, undo: str, *more: Any) -> Iterator[Any]:
        """What was made, for the block; `undo` takes it back, called with it and what it needs more."""
        try:
            yield made
        finally:
            self.undo(undo, made, *more)

    # --- The GPU, and its streams.

    def attribute(self, name: str) -> int:
        """Of CUdevice_attribute, without its prefix; 0 where the driver does not know it."""
        which = getattr(self.cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
        status, *value = self.answer("cuDeviceGetAttribute", which, self.device) if which is not None else (1,)
        return value[0] if status == 0 else 0

    @property
    def compute_capability(self) -> tuple[int, int]:
        return self.attribute("COMPUTE_CAPABILITY_MAJOR"), self.attribute("COMPUTE_CAPABILITY_MINOR")

    def free_bytes(self) -> int:
        return self.call("cuMemGetInfo")[0]

    def stream(self) -> contextlib.AbstractContextManager[Any]:
        """A stream that does not wait for the default stream."""
        return self.lent(self.call("cuStreamCreate", 1), "cuStreamDestroy")

    def event(self, timed: bool = False) -> contextlib.AbstractContextManager[Any]:
        return self.lent(self.call("cuEventCreate", 0 if timed else 2), "cuEventDestroy")

    def read(self, address: int, count: int) -> list[int]:
        """Words of 32 bits; waits for the default stream's work."""
        words = (ctypes.c_uint * count)()
        self.call("cuMemcpyDtoH", ctypes.addressof(words), address, ctypes.sizeof(words))
        return list(words)


class Memory(Driver):
    """Handles of physical memory, seen at pages of reserved ranges."""

    @functools.cached_property
    def export(self) -> Export:
        """The most that works here, in the order in which frugal_alloc tries: a driver may not do what it says."""
        says = Export(
            bool(self.attribute("GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED")),
            bool(self.attribute("HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED")),
        )
        for rdma in (True, False) if says.rdma else (False,):
            for shareable in (True, False) if says.shareable else (False,):
                export = Export(rdma, shareable)
                try:
                    with self.handles(1, PAGE, export) as made, self.mapped(made, PAGE):
                        return export
                except DriverError as error:
                    if error.is_out_of_memory:  # a full device says nothing
                        return says
        return says

    def properties(self, export: Export | None = None) -> Any:
        """As frugal_alloc and PyTorch's expandable segments ask for memory; or as said."""
        rdma, shareable = self.export if export is None else export
        asked = self.cuda.CUmemAllocationProp()
        asked.type = self.cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self._place(asked)
        if shareable:
            asked.requestedHandleTypes = self.cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        asked.allocFlags.gpuDirectRDMACapable = int(rdma)
        return asked

    @functools.cached_property
    def access(self) -> list[Any]:
        """To be read and written by this GPU."""
        allowed = self.cuda.CUmemAccessDesc()
        self._place(allowed)
        allowed.flags = self.cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        return [allowed]

    def _place(self, asked: Any) -> None:
        asked.location.type = self.cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        asked.location.id = int(self.device)

    def create(self, size: int, asked: Any) -> int:
        return int(self.call("cuMemCreate", size, asked, 0))

    @contextlib.contextmanager
    def handles(self, count: int, size: int, export: Export | None = None) -> Iterator[list[int]]:
        asked, made = self.properties(export), []
        try:
            for _ in range(count):
                made.append(self.create(size, asked))
            yield made
        finally:
            for handle in made:
                self.undo("cuMemRelease", handle)

    def reserve(self, size: int, alignment: int = PAGE, wish: int = 0) -> int:
        return int(self.call("cuMemAddressReserve", size, alignment, wish, 0))

    def reserved(self, size: int) -> contextlib.AbstractContextManager[int]:
        return self.lent(self.reserve(size), "cuMemAddressFree", size)

    def map_handles(self, start: int, made: Sequence[int], size: int) -> None:
        """Side by side from `start`, opened. After an error none of them is mapped."""
        done = 0
        try:
            for place, handle in enumerate(made):
                self.call("cuMemMap", start + place * size, size, 0, handle, 0)
                done += 1
            self.call("cuMemSetAccess", start, len(made) * size, self.access, 1)
        except DriverError:
            if done:
                self.undo("cuMemUnmap", start, done * size)
            raise

    @contextlib.contextmanager
    def mapped(self, made: Sequence[int], size: int) -> Iterator[int]:
        """The handles, side by side at addresses of their own."""
        with self.reserved(len(made) * size) as start:
            self.map_handles(start, made, size)
            try:
                yield start
            finally:
                self.undo("cuMemUnmap", start, len(made) * size)

    def segment(self, size: int) -> contextlib.AbstractContextManager[int]:
        """Memory as cudaMalloc gives it."""
        return self.lent(int(self.call("cuMemAlloc", size)), "cuMemFree")


class Gpu(Memory):
    """A GPU that kernels run on."""

    @contextlib.contextmanager
    def module(self, source: Path) -> Iterator[Any]:
        """The kernels of a file."""
        with self.lent(self.load(compiled(source, self.compute_capability)), "cuModuleUnload") as module:
            yield module

    def load(self, code: bytes) -> Any:
        try:
            return self.call("cuModuleLoadData", code)
        except DriverError as error:
            if error.is_foreign_code:
                raise CannotTell(f"NVRTC and the driver do not go together: {error}") from None
            raise

    def kernel(self, module: Any, name: str, grid: int, block: int, *types: type) -> Kernel:
        return Kernel(self.call("cuModuleGetFunction", module, name.encode()), types, grid, block)

    def launch(self, kernel: Kernel, stream: Any, *values: int) -> None:
        grid, block = (kernel.grid, 1, 1), (kernel.block, 1, 1)
        self.call("cuLaunchKernel", kernel.function, *grid, *block, 0, stream, (values, kernel.types), 0)

    def launch_dependent(self, kernel: Kernel, stream: Any, *values: int) -> None:
        """It may begin while the kernel before it still runs, and waits for its writes by griddepcontrol.wait."""
        attribute, configuration = self.cuda.CUlaunchAttribute(), self.cuda.CUlaunchConfig()
        attribute.id = self.cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        configuration.gridDimX, configuration.gridDimY, configuration.gridDimZ = kernel.grid, 1, 1
        configuration.blockDimX, configuration.blockDimY, configuration.blockDimZ = kernel.block, 1, 1
        configuration.hStream, configuration.attrs, configuration.numAttrs = stream, [attribute], 1
        self.call("cuLaunchKernelEx", configuration, kernel.function, (values, kernel.types), 0)


@contextlib.contextmanager
def opened_gpu() -> Iterator[Gpu]:
    """With its primary context current in this thread for the block."""
    gpu = Gpu()
    gpu.call("cuCtxPushCurrent", gpu.call("cuDevicePrimaryCtxRetain", gpu.device))
    try:
        yield gpu
    finally:
        gpu.undo("cuCtxPopCurrent")
        gpu.undo("cuDevicePrimaryCtxRelease", gpu.device)


def _cuda(module: str) -> Any:
    try:
        if module == "nvrtc":
            from cuda.bindings import nvrtc as found
        else:
            from cuda.bindings import driver as found  # type: ignore[no-redef]
    except ImportError:
        with contextlib.suppress(installation.MissingPart):
            cuda = (installation.find_torch().cuda or "").partition(".")[0]
        raise CannotTell(f"cuda-bindings is not installed; pip install 'cuda-bindings=={cuda or 13}.*'") from None
    return found


@functools.cache
def compiled(source: Path, capability: tuple[int, int]) -> bytes:
    """A module for a device of this compute capability: its machine's code, or PTX where NVRTC is older.

    Raises:
        CannotTell: there is no NVRTC, or it does not compile.
    """
    nvrtc = _cuda("nvrtc")

    def call(name: str, *arguments: Any) -> Any:
        try:
            status, *made = getattr(nvrtc, name)(*arguments)
        except RuntimeError as error:
            why = str(error).splitlines()[0]
            raise CannotTell(f"no NVRTC; install the nvidia-cuda-nvrtc package of this torch: {why}") from None
        if status != 0:
            raise CannotTell(f"{name} fails with {status.name} for {source.name}")
        return made[0] if made else None

    number = capability[0] * 10 + capability[1]
    call("nvrtcGetNumSupportedArchs")
    known = [each for each in call("nvrtcGetSupportedArchs") if each <= number]
    if not known:
        raise CannotTell(f"NVRTC knows no architecture as old as sm_{number}; install a torch for this GPU")
    is_known, kind = number in known, "CUBIN" if number in known else "PTX"
    options = [f"--gpu-architecture={'sm' if is_known else 'compute'}_{max(known)}".encode(), b"--std=c++17"]
    program = call("nvrtcCreateProgram", source.read_bytes(), source.name.encode(), 0, None, None)
    try:
        if nvrtc.nvrtcCompileProgram(program, len(options), options)[0] != 0:
            log = bytes(call("nvrtcGetProgramLogSize", program))
            call("nvrtcGetProgramLog", program, log)
            said = log.decode(errors="replace").strip("\0\n").splitlines() or ["no reason given"]
            raise CannotTell(f"{source.name} does not compile for sm_{number}: {said[0]}")
        code = bytes(call(f"nvrtcGet{kind}Size", program))
        call(f"nvrtcGet{kind}", program, code)
        return code
    finally:
        nvrtc.nvrtcDestroyProgram(program)
