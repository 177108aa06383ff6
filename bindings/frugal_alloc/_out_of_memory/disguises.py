"""Errors in which memory ran out, but whose message says something else. The verdict follows below the traceback, where
the facts support it.

A library that asks the driver for memory of its own says in its own words that there is none: cuBLAS for a handle,
cuDNN for a plan, the driver for a kernel's code, the host for page-locked memory.
"""

from __future__ import annotations

import re
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .. import _interruptions, _native
from .._common import host_memory
from .._common.messages import format_bytes as size
from .._program.code_lines import written
from .._report import latest_error

# What libraries ask for at a time, of small GPUs a part: with less free, they may well have failed for want of memory.
LIBRARIES_NEED_BYTES = 200 << 20
_LIBRARIES_NEED_PART = 16
# Host memory is short below it.
_HOST_NEEDS_BYTES = 512 << 20
_WIDTH = 100


# By what the message says: what could not be done for want of memory.
_DISGUISES = {
    r"CUBLAS_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)": "cuBLAS could not get memory for its handle or workspace",
    r"CUSOLVER_STATUS_(ALLOC_FAILED|NOT_INITIALIZED|INTERNAL_ERROR)": "cuSOLVER could not get its workspace",
    r"CUSPARSE_STATUS_(ALLOC_FAILED|NOT_INITIALIZED|INSUFFICIENT_RESOURCES)": "cuSPARSE could not get memory",
    r"CUFFT_ALLOC_FAILED": "cuFFT could not get its workspace",
    r"CUDNN_STATUS_(ALLOC_FAILED|NOT_INITIALIZED|INTERNAL_ERROR\w*|EXECUTION_FAILED)|"
    r"unable to find (a valid cuDNN algorithm|an engine)|no (valid )?(cudnn )?algorithm": (
        "cuDNN found no way to compute within the memory that was left"
    ),
    r"NCCL error.*out of memory|Cuda failure.*out of memory": "NCCL could not get its buffers",
    r"CUDA error: out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc: out_of_memory": (
        "a library or the driver asked for memory of its own and got none"
    ),
    r"unspecified launch failure|CUDA error: (initialization error|the launch timed out)": (
        "a kernel failed to launch or to run where little memory was left for its stack, heap or code"
    ),
}
_PINNING = r"pin[_ ]memory|cudaHostAlloc|cudaHostRegister|CachingHostAllocator"


def recognise(error: BaseException) -> str | None:
    """What an error, or one that it came from, says could not be done for want of memory. PyTorch's own out-of-memory
    error is in no disguise."""
    for cause in _chain(error):
        text = str(cause)
        if _is_plain(cause, text):
            return None
        for pattern, undone in _DISGUISES.items():
            if re.search(pattern, text, re.IGNORECASE):
                return undone
    return None


def explain(error: BaseException) -> str | None:
    """A paragraph about an error that is memory running out in disguise; None where the facts do not support that.

    Asks the driver for its free memory and allocates nothing.
    """
    undone = recognise(error)
    library = _native.loaded()
    if undone is None or library is None or not library.is_enabled():
        return None
    if _is_pinning(error):
        return _of_host_memory()
    fullest = min((_look(library, gpu) for gpu in library.gpus()), key=lambda state: state.free_bytes, default=None)
    if fullest is None or fullest.free_bytes >= fullest.needed_by_libraries:
        return None
    return _paragraph(undone, fullest, _leak_on(library, fullest.gpu))


def _leak_on(library: _native.Library, gpu: int) -> str | None:
    """What has filled the GPU, if that is known to leak."""
    from .._report import document

    for row in document.judge(library).verdicts:
        if row["gpu"] == gpu and row["kind"] in ("leak", "growing") and row["material"] and row["file"]:
            return (
                f"What fills it: {written(row['file'], row['line'])} leaks {size(row['bytes_per_epoch'])} with each "
                f"epoch, {size(row['bytes'])} by now: {row['advice']}."
            )
    return None


class _Gpu(NamedTuple):
    gpu: int
    total_bytes: int
    free_bytes: int
    allocated_bytes: int
    idle_bytes: int  # in our hands, in no tensor
    others_bytes: int

    @property
    def needed_by_libraries(self) -> int:
        return min(LIBRARIES_NEED_BYTES, self.total_bytes // _LIBRARIES_NEED_PART)


def _look(library: _native.Library, gpu: int) -> _Gpu:
    import torch

    stats = library.stats(gpu)
    total = torch.cuda.get_device_properties(gpu).total_memory
    reserved = torch.cuda.memory_reserved(gpu)
    try:
        free, total = torch.cuda.mem_get_info(gpu)
    except RuntimeError:  # after a failed launch the driver answers nothing any more
        free = max(0, total - reserved)
    idle = max(0, stats["reserved_bytes"] - stats["active_bytes"])
    return _Gpu(gpu, total, free, stats["allocated_bytes"], idle, max(0, total - free - reserved))


def _paragraph(undone: str, state: _Gpu, leak: str | None) -> str:
    text = (
        f"frugal_alloc: this looks like memory running out under another name: {undone}. GPU {state.gpu} has "
        f"{size(state.free_bytes)} free of {size(state.total_bytes)}: {size(state.allocated_bytes)} are allocated, "
        f"{size(state.idle_bytes)} idle with frugal_alloc, {size(state.others_bytes)} with the CUDA context, libraries "
        "and other processes. "
    )
    text += leak or _leave_room(state)
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False, break_long_words=False)


def _leave_room(state: _Gpu) -> str:
    needed = state.needed_by_libraries
    percent = 100 * (state.total_bytes - state.others_bytes - needed) // state.total_bytes
    if percent <= 0:
        return ""
    text = f"Leave room for libraries: FRUGAL_ALLOC_CONF=memory_limit:{percent}% keeps {size(needed)} free for them"
    if state.idle_bytes >= needed:
        return f"{text}; here torch.cuda.empty_cache() would have been enough."
    return f"{text}; tensors must then do with {size(max(0, needed - state.free_bytes))} less."


def _of_host_memory() -> str | None:
    available = host_memory.available_bytes()
    text = (
        "frugal_alloc: this is the host's memory, not the GPU's: pinned memory is page-locked host memory"
        f"{'' if available is None else f', and {size(available)} of it are available'}. "
    )
    if available is not None and available >= _HOST_NEEDS_BYTES:
        text += "A limit on it (ulimit -l, a container's) may be in the way. "
    text += (
        "Use pin_memory=False, or fewer and smaller batches ahead (num_workers, prefetch_factor, batch_size): neither "
        "changes what the GPU needs."
    )
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def _is_plain(error: BaseException, text: str) -> bool:
    import torch

    return isinstance(error, torch.OutOfMemoryError) or text.startswith("CUDA out of memory. ")


def _is_pinning(error: BaseException) -> bool:
    return any(
        re.search(_PINNING, str(cause), re.IGNORECASE)
        or any("pin_memory" in frame.f_code.co_name for frame, _ in traceback.walk_tb(cause.__traceback__))
        for cause in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


_before: dict[str, Callable] = {}
_lock = threading.Lock()


def watch() -> None:
    """Has errors that end the program or a thread looked at, once the hooks that were there have shown them."""
    with _lock:
        if not _before:
            _before.update(program=sys.excepthook, thread=threading.excepthook)
            sys.excepthook, threading.excepthook = _program_failed, _thread_failed


def unwatch() -> None:
    """Puts the hooks back that were there, unless others have been set since: those may call ours, which then only
    passes on."""
    with _lock:
        if sys.excepthook is _program_failed and threading.excepthook is _thread_failed:
            sys.excepthook, threading.excepthook = _before.pop("program"), _before.pop("thread")


def _program_failed(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    _before.get("program", sys.__excepthook__)(kind, error, trace)
    if any(_is_plain(cause, str(cause)) for cause in _chain(error)):
        latest_error.note_end()
    _tell(error)


def _thread_failed(arguments: Any) -> None:
    _before.get("thread", threading.__excepthook__)(arguments)
    if arguments.exc_value is not None:
        _tell(arguments.exc_value)


def _tell(error: BaseException) -> None:
    # Nothing that goes wrong here may hide the error itself.
    _interruptions.attempt(None, _print_explanation, error)


def _print_explanation(error: BaseException) -> None:
    library = _native.loaded()
    text = explain(error) if issubclass(type(error), Exception) else None
    if library is None or text is None:
        return
    from .._report import document, files

    path = files.land(document.build(), library.setting("report_dir"))
    print(text if path is None else f"{text}\nReport: {path}", file=sys.stderr)
