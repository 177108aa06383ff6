"""Programs on PyTorch that are careless with streams, as real ones are.

Each gets torch, with CUDA not started, and a unit of memory in bytes, and raises if its values are wrong or the GPU
faults. They run for about a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .driver import Gpu

#: At clock rates from 1 to 2 GHz, 0.1 to 0.2 s: so long that all that the host does meanwhile is done before.
_CYCLES = 200_000_000
_GREEN_MULTIPROCESSORS = 16


class NotOffered(Exception):
    """This torch, driver or GPU does not have what the program is about; the message says what."""


class WrongValues(Exception):
    """Memory does not hold what was written there."""


def _tensor(torch: Any, size: int, value: int) -> Any:
    return torch.full((size,), value, dtype=torch.uint8, device="cuda")


def _check(tensor: Any, value: int, what: str) -> None:
    wrong = int((tensor != value).sum())
    if wrong:
        raise WrongValues(f"{what}: {wrong} of {tensor.numel()} bytes are not {value}")


def _want_memory(torch: Any, unit: int) -> None:
    """Requests that no free piece of `unit` serves, so that an allocator moves, maps or gives back what it has."""
    larger = [_tensor(torch, size * unit // 2, 7) for size in (3, 5, 7)]
    torch.cuda.empty_cache()
    larger += [_tensor(torch, size * unit // 2, 7) for size in (9, 3)]
    for tensor in larger:
        _check(tensor, 7, "memory of a new tensor")


def destroyed_stream(torch: Any, unit: int) -> None:
    """A stream of somebody else's, which is gone when the memory that was used on it is given back."""
    torch.cuda.init()
    torch.cuda.synchronize()
    gpu = Gpu()
    kept = _tensor(torch, unit, 3)
    for _ in range(8):
        handle = gpu.call("cuStreamCreate", 1)
        stream = torch.cuda.ExternalStream(int(handle))
        with torch.cuda.stream(stream):
            tensors = [_tensor(torch, unit, 1) for _ in range(4)]
        stream.synchronize()
        del stream
        gpu.call("cuStreamDestroy", handle)
        del tensors
        _want_memory(torch, unit)
    _check(kept, 3, "memory of another stream")


def _run_green(torch: Any, unit: int, entered: Any) -> None:
    """Work that still runs in the green context when its memory is freed, and wanted by the primary one."""
    with entered:
        tensors = [_tensor(torch, unit, 5) for _ in range(4)]
        torch.cuda._sleep(_CYCLES)
        copies = [tensor.clone() for tensor in tensors]
        del tensors
        _want_memory(torch, unit)
    _want_memory(torch, unit)
    torch.cuda.synchronize()
    for copy in copies:
        _check(copy, 5, "a copy made in the green context")


def _green_context(torch: Any) -> Any:
    try:
        from torch.cuda.green_contexts import GreenContext
    except ImportError:
        raise NotOffered(f"torch {torch.__version__} has no green contexts") from None
    torch.cuda.init()
    torch.cuda.synchronize()
    try:
        return GreenContext.create(_GREEN_MULTIPROCESSORS, 0)
    except (RuntimeError, AttributeError) as error:
        raise NotOffered(f"no green context here: {str(error).splitlines()[0]}") from None


def green_context_entered(torch: Any, unit: int) -> None:
    green = _green_context(torch)

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        green.set_context()
        try:
            yield
        finally:
            green.pop_context()

    _run_green(torch, unit, entered())


def green_context_stream(torch: Any, unit: int) -> None:
    green = _green_context(torch)
    if not hasattr(type(green), "Stream"):
        raise NotOffered(f"green contexts of torch {torch.__version__} have no streams")
    _run_green(torch, unit, torch.cuda.stream(green.Stream()))


def missing_record_stream(torch: Any, unit: int) -> None:
    """Memory is freed while another stream has yet to read it, which nobody was told. What that stream reads is the
    program's own fault; that it may read is not."""
    side = torch.cuda.Stream()
    # Every other one stays, so that what is freed has to be joined to be of use.
    tensors = [_tensor(torch, unit, 1) for _ in range(16)]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(_CYCLES)
        sums = [tensor.sum() for tensor in tensors]
    del tensors[::2]
    # The stream of the memory has done all of its work: nothing that the allocator knows of is under way.
    torch.cuda.current_stream().synchronize()
    _want_memory(torch, unit)
    side.synchronize()
    del sums


def unmapped_behind_work(torch: Any, unit: int) -> None:
    """Memory is freed, and wanted in other pieces, while its own stream has yet to read it."""
    for iteration in range(1, 4):
        tensors = [_tensor(torch, unit, iteration) for _ in range(8)]
        torch.cuda._sleep(_CYCLES)
        copies = [tensor.clone() for tensor in tensors[::2]]
        del tensors[::2]
        larger = _tensor(torch, 2 * unit, 9)
        del tensors
        _want_memory(torch, unit)
        _check(larger, 9, "memory that was joined")
        for copy in copies:
            _check(copy, iteration, "a copy of memory that was freed after it")


#: In order of value: what most programs may meet comes first.
PROGRAMS = {
    "a missing record_stream": missing_record_stream,
    "unmapping behind running work": unmapped_behind_work,
    "a destroyed stream's memory": destroyed_stream,
    "a green context that is entered": green_context_entered,
    "a green context's stream": green_context_stream,
}
