"""frugal_alloc takes the place of PyTorch's CUDA caching allocator, and says where GPU memory goes.

    import frugal_alloc
    frugal_alloc.enable()

From then on new tensors on a GPU live in memory that frugal_alloc manages. It takes physical memory from the driver in
pieces of 2 MiB or more, which CUDA calls handles. It maps free handles side by side, wherever they lie, into a block as
large as a request needs. The functions of ``torch.cuda`` about memory go on working.

All functions may be called from any thread. Importing this package does not import torch.
"""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING

from . import _native
from ._native import FrugalAllocError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import torch

    from ._report.report import Report
    from ._sleep.sleeping import Slept
    from ._sleep.tags import Tag
    from ._switch.cuda_malloc import CudaMalloc
    from ._switch.in_place import Kept
    from ._tracking.declarations import Expectation, Phase
    from ._tracking.regions import LeakError, NoLeaks, Region

__version__ = "0.1.0"
__all__ = [
    "FrugalAllocError",
    "LeakError",
    "asleep",
    "cmake_prefix_path",
    "cuda_malloc",
    "disable",
    "enable",
    "epoch_end",
    "expect_growth",
    "is_enabled",
    "keep_in_place",
    "measure",
    "memory_stats",
    "no_leaks",
    "phase",
    "report",
    "retag",
    "sleep",
    "tag",
    "wake",
]

#: For C++ programs: what CMAKE_PREFIX_PATH needs for ``find_package(frugal_alloc)`` to find this package and LibTorch.
cmake_prefix_path: str


def enable(
    *,
    memory_limit: int | str | None = None,
    idle_release: float | str | None = None,
    track: bool | str | None = None,
    publish: bool | str | None = None,
    report_dir: str | os.PathLike[str] | None = None,
    suppressions: str | os.PathLike[str] | None = None,
) -> None:
    """Lets frugal_alloc serve all new CUDA memory of this process.

    May be called before CUDA has started, or at any later time; it does not start CUDA. Tensors that exist stay where
    they are and are freed as before. A later call changes the settings that it names and nothing else. Memory of CUDA
    graphs, and of pools that are not to be split or have an allocator of their own, lies in segments that are never
    remapped; so does all new memory while the program has turned ``expandable_segments`` off in the middle of a run. A
    memory fraction that was set still applies. A recording of memory history that is under way covers the new memory,
    too. With ``FRUGAL_ALLOC=0`` in the environment this function does nothing; :func:`is_enabled` tells.

    Args:
        memory_limit: The most that this process may hold on each GPU, PyTorch's own allocator included: bytes,
            "20GiB", "80%" of the GPU, or "off". The smaller of it and PyTorch's memory fraction applies.
        idle_release: Memory that was free for so long goes back to the driver: seconds, "30s", "10min", or "off".
        track: Whether allocations are recorded by line, to tell what leaks: True (the default), "on", False or "off".
        publish: Whether ``frugal-alloc top`` sees this process, and whether it gives idle memory to other processes on
            its GPU and asks them for theirs: True (the default), "on", False or "off".
        report_dir: The folder for reports about out-of-memory errors and about whole runs; "off": none are written.
        suppressions: A file that names what no report is to accuse. A later call's file replaces it.

    None leaves a setting as it is: at first as ``FRUGAL_ALLOC_CONF`` has it ("memory_limit:20GiB"), or the default.
    That variable has six more settings, which hardly any program needs: docs/tuning.md.

    Raises:
        FrugalAllocError: a setting is not possible; or there is no PyTorch with CUDA, no driver, or no library for this
            version of PyTorch; or it was called inside ``torch.cuda.use_mem_pool`` or a graph capture. PyTorch's
            allocator then goes on as it was.
    Warns:
        RuntimeWarning: settings of PYTORCH_ALLOC_CONF that frugal_alloc does not follow, each named once.
    """
    chosen = dict(locals())
    from ._switch import enabling, settings

    if not settings.is_turned_off():
        enabling.enable(settings.to_text(**chosen), suppressions)


def disable() -> None:
    """Lets PyTorch's own allocator serve new memory again.

    Tensors in frugal_alloc's memory stay valid. What they free is kept until ``torch.cuda.empty_cache()`` or the next
    :func:`enable`. Does nothing where frugal_alloc was not enabled.
    """
    library = _native.loaded()
    if library is not None:
        from ._switch import enabling

        enabling.disable(library)


def is_enabled() -> bool:
    """Whether new CUDA memory comes from frugal_alloc."""
    library = _native.loaded()
    return library is not None and library.is_enabled()


def memory_stats(device: int | str | object = None) -> dict[str, int]:
    """What frugal_alloc itself holds and has done on a GPU; ``torch.cuda.memory_stats`` adds PyTorch's own allocator.

    Args:
        device: A GPU's number, name ("cuda:1") or ``torch.device``; the current one if left out.

    Returns:
        Counts since :func:`enable` was first called, and sizes in bytes; ``peak_*`` are the highest since then, or
        since ``torch.cuda.reset_peak_memory_stats()``. All are 0 on a GPU that nothing was allocated on.

        - ``allocated_bytes``, ``peak_allocated_bytes``: in tensors, rounded up to 512 bytes each
        - ``requested_bytes``, ``peak_requested_bytes``: in tensors, as they were asked for
        - ``active_bytes``, ``peak_active_bytes``: in tensors, or freed while a stream may still use them
        - ``reserved_bytes``, ``peak_reserved_bytes``: physical memory held
        - ``asleep_bytes``: allocated, and asleep: without physical memory
        - ``host_copy_bytes``: host memory held for copies of what sleeps, or slept
        - ``blocks``: tensors' blocks that are handed out now
        - ``allocations``, ``frees``: how many blocks were handed out and given back
        - ``stitches``: times that free handles were joined into a block instead of taking more memory
        - ``stitched_bytes``: bytes so joined
        - ``stream_waits``: times that a stream was told to wait for another to take over its memory
        - ``host_waits``: times that the program waited for a stream because memory was short
        - ``retries``: times that memory had to be given back before a request could be served
        - ``out_of_memory_errors``: requests that could not be served at all
        - ``device_allocations``, ``device_frees``: pieces of physical memory taken from the driver and given back
        - ``driver_failures``: calls of the driver that failed, without the program having to know
        - ``native_allocated_bytes``: memory of PyTorch's own allocator that is in use beside ours: what it served
          before :func:`enable`, or while we were disabled
        - ``native_reserved_bytes``: physical memory that PyTorch's own allocator holds beside ours
        - ``limit_bytes``: the most that both may hold together; 0: as much as there is
        - ``virtual_memory``: 1 if the GPU can map memory, 0 if it gets plain ``cudaMalloc`` segments
        - ``driver_CALL_calls``, ``driver_CALL_ns``, ``driver_CALL_worst_ns``: how many calls of a kind were made to the
          driver, how long they took together and the longest of them, in nanoseconds; the kinds are ``memory_info``,
          ``reserve``, ``unreserve``, ``create``, ``release``, ``map``, ``set_access``, ``unmap``, ``malloc``, ``free``,
          ``event_create``, ``event_record``, ``event_query``, ``stream_wait`` and ``sync``

    Raises:
        FrugalAllocError: frugal_alloc was never enabled, or `device` is not a CUDA device.
    """
    return _native.required().stats(_device_number(device))


def keep_in_place(tensor: torch.Tensor) -> Kept:
    """Keeps the physical memory behind a tensor where it is, until the result is released.

    ``with frugal_alloc.keep_in_place(tensor):``, or ``kept = frugal_alloc.keep_in_place(tensor)``, then
    ``kept.release()``.

    For memory that others register or open: a network card (RDMA), NCCL, another process. They go on using the physical
    memory that was there when they asked, and frugal_alloc moves memory once it is free. The memory stays after the
    tensor has been freed, too: its addresses may then be handed out again, with the same memory behind them. Memory is
    kept in whole pieces of 2 MiB or more; what is kept twice stays until both are released. Memory that is not
    frugal_alloc's never moves: nothing is done about it.

    Args:
        tensor: A tensor on a GPU. Gaps between its elements are kept, too.

    Returns:
        What keeps it: a context manager with ``release()``, ``address`` and ``size``. It holds no tensor. Where it is
        dropped without either, the memory stays in place as long as the process lives.

    Raises:
        FrugalAllocError: it is no tensor on a GPU, or its memory cannot be kept.
    """
    from ._switch import in_place

    return in_place.keep(tensor)


def cuda_malloc() -> CudaMalloc:
    """Within it, what this thread allocates comes from ``cudaMalloc``, in segments that are never remapped.

    A context manager and a decorator: ``with frugal_alloc.cuda_malloc(): buffer = torch.empty(...)``. May be nested.

    For memory that ``cudaIpcGetMemHandle`` or a library is to register that takes one handle only: frugal_alloc's
    memory lies in several, as PyTorch's expandable segments do. The memory stays where it is until it is freed. Other
    threads are unaffected, autograd's included. For the whole process, tell PyTorch ``expandable_segments:False`` while
    it runs. Does nothing while frugal_alloc is not enabled.
    """
    from ._switch.cuda_malloc import CudaMalloc

    return CudaMalloc()


def tag(name: str) -> Tag:
    """Names what memory is for: what this thread allocates within it has the tag, by which :func:`sleep` chooses.

    A context manager and a decorator: ``with frugal_alloc.tag("weights"):``, ``@frugal_alloc.tag("kv_cache")``. Tags
    may be nested: the innermost counts. A task of asyncio's has its own, also across ``await``; what it starts, other
    tasks or ``asyncio.to_thread``, has it until the block is left. What autograd's own threads allocate in a backward
    pass that begins within it has the tag, too. Memory keeps its tag until it is freed, or :func:`retag` gives it
    another. Does nothing where frugal_alloc was never enabled.

    Raises:
        FrugalAllocError: the name is not a text of one line, or empty; or there are 255 other tags. As the block is
            left: another that was entered within it was not, or it was entered in another task or thread.
    """
    from ._sleep import tags

    return tags.Tag(name)


def retag(what: Any, name: str) -> int:
    """Gives memory that was allocated before a tag, by who owns it: ``frugal_alloc.retag(optimizer, "optimizer")``.

    Args:
        what: A tensor; a module: its parameters and buffers, without the gradients; an optimizer: its state, without
            the parameters; or a dict, list, tuple, set or dataclass of all these, nested as you like. What else is in
            it is left alone.
        name: The tag. Two tensors that share memory have one tag, the last.

    Returns:
        Bytes that have the tag now. Tensors on the CPU, and memory that is PyTorch's own allocator's, do not count.

    Raises:
        FrugalAllocError: nothing could be found in `what`; or the name is not possible, as for :func:`tag`.
    """
    from ._sleep import tags

    return tags.retag(what, name)


def sleep(
    tags: str | Iterable[str] | None = None,
    *,
    keep: str | Iterable[str] = (),
    drop: str | Iterable[str] = (),
    host: str = "pinned",
    check: str | None = None,
) -> Slept:
    """Gives the physical memory of tensors back to the driver until :func:`wake`. The tensors keep their addresses.

    Their contents go to host memory. ``torch.cuda.memory_allocated()`` stays as it is, ``memory_reserved()`` falls.
    Tensors may be freed and new ones made as ever meanwhile. What is asleep already stays so: a second call adds to the
    first. Tensors in reference cycles that nothing uses sleep, too; ``gc.collect()`` before saves copying them.

    What sleeps is what Python objects hold: tensors, their gradients, and what autograd's graphs behind them have
    saved. What C++ alone has stays awake, as DDP's buckets and libraries' workspaces, and so does memory of PyTorch's
    own allocator and under :func:`keep_in_place`, and what shares a page of 2 MiB with any of it. Memory of CUDA graphs
    sleeps with the setting ``pools:mapped``, as a whole, and is always copied. The result says how much stayed, why,
    and of which line. PyTorch raises RuntimeError in any operation on what sleeps, and so does a graph's replay.

    Waits until the GPU has done all its work, holds no lock of Python's while it copies, and does all or nothing: on an
    error everything is awake as before. Any thread may call it. Ctrl-C is raised once it has come to its end.

    Args:
        tags: The tags whose memory is to sleep. None: all memory, with a tag or without.
        keep: Tags whose memory stays awake in any case.
        drop: Tags whose contents are not copied. They are undefined after :func:`wake`.
        host: Where the copies lie. "pinned": in pinned memory, which is copied to fastest. It takes long to get, so it
            is kept for the next time until ``torch.cuda.empty_cache()`` is called while nothing sleeps. "pageable": in
            ordinary memory, which is given back at :func:`wake`.
        check: "poison" fills what is dropped with NaN, or integers with bytes of 0xFF, and so also what has to stay
            awake. Then a program that goes on using it, since its tag is wrong, shows it.

    Returns:
        What fell asleep and what stayed awake, in bytes: print it, or see its attributes.

    Raises:
        FrugalAllocError: frugal_alloc was never enabled; a tag was never used in this process, or is both in `keep` and
            in `drop`; there is not enough host memory; a CUDA graph is being captured; memory of CUDA graphs would
            sleep that NCCL may have registered; or the driver failed.
    """
    from ._sleep import sleeping

    return sleeping.sleep(tags, keep, drop, host, check)


def wake(tags: str | Iterable[str] | None = None) -> int:
    """Lets memory that sleeps have physical memory and its contents again. What is awake stays as it is.

    All that is named wakes, or on an error nothing. Any thread may call it. Ctrl-C is raised once it has come to its
    end.

    Args:
        tags: The tags whose memory is to wake. None: all that sleeps.

    Returns:
        Bytes that are awake again.

    Raises:
        FrugalAllocError: frugal_alloc was never enabled; a tag was never used in this process; the GPU has not enough
            memory; or the driver failed.
    """
    from ._sleep import sleeping

    return sleeping.wake(tags)


def asleep() -> dict[str, int]:
    """What sleeps now, on all GPUs: bytes by tag, those without a tag under "". Empty: nothing sleeps."""
    from ._sleep import sleeping

    return sleeping.asleep()


def epoch_end() -> None:
    """Says that an epoch has ended. Memory that each epoch leaves behind is a leak.

    Without this function the ends of epochs are guessed: where the training's DataLoader starts over, or from optimizer
    steps. Once it has been called, only its calls count. Where more memory is in use than at any earlier end, it may
    run ``gc.collect()``, ever more rarely, to tell reference cycles from leaks: of objects that were made lately, or of
    all where a line seems to leak. Does nothing where frugal_alloc is not enabled.
    """
    from . import _tracking

    tracker = _tracking.current()
    if tracker is not None:
        tracker.epoch_ended()


def phase(name: str) -> Phase:
    """Names a part of the program: what this thread allocates within it belongs to the phase in every report.

    A context manager and a decorator: ``with frugal_alloc.phase("evaluation"):``, ``@frugal_alloc.phase("sampling")``.
    Phases may be nested: the innermost counts. What autograd's own threads allocate in a backward pass has no phase.

    Raises:
        FrugalAllocError: the name is not a text, or empty.
    """
    from ._tracking import declarations

    return declarations.Phase(declarations.checked_name(name, "phase"))


def expect_growth(what: str) -> Expectation:
    """Declares that some memory grows on purpose, such as a cache: no verdict will name it.

    The declaration is for the whole process, from the call on. As a context manager or decorator it also opens a phase
    of that name: ``with frugal_alloc.expect_growth("cache"):``.

    Args:
        what: A line ("train.py:12"), a file, a function or a phase; with "*" as in a shell.

    Raises:
        FrugalAllocError: it is not a text, or empty.
    """
    from ._tracking import declarations

    return declarations.Expectation(declarations.checked_name(what, "expect_growth"))


def no_leaks(*, allow_bytes: int = 0) -> NoLeaks:
    """A context manager and decorator that raises if more GPU memory is in use at its end than at its beginning.

    Collects garbage at both ends, so that reference cycles do not count. The memory of all threads counts, on all GPUs,
    whether it is frugal_alloc's or PyTorch's own. What is made once, such as an optimizer's state, counts, too: run
    the code once before. cuBLAS's workspace does not count, as long as there are no CUDA graphs.

    Args:
        allow_bytes: So many bytes more are no leak.

    Raises:
        LeakError: an AssertionError, when the block ends without another error; it lists bytes by line.
    """
    from ._tracking import regions

    return regions.NoLeaks(allow_bytes)


def measure(name: str = "") -> Region:
    """A context manager and decorator that tells, by line, what a part of a program held at its peak and what it kept.

    ``with frugal_alloc.measure() as region:`` and then ``print(region)``; a decorated function prints to stderr at each
    call. Counts what all threads allocate meanwhile.

    Raises:
        FrugalAllocError: frugal_alloc is not enabled when the region begins.
    """
    from ._tracking import regions

    return regions.Region(name)


def report() -> Report:
    """What is known about this process's GPU memory now: what leaks and why, who holds what, and how it changed.

    ``print(frugal_alloc.report())``; ``.verdicts``, ``.to_json(path)`` and ``.to_html(path)`` for programs and pages.
    Takes tenths of a second, and more in a large program, with the GIL held. It keeps no tensor alive.

    Raises:
        FrugalAllocError: frugal_alloc was never enabled.
    """
    from ._report.report import Report

    return Report()


def __getattr__(name: str) -> object:
    # Whoever catches it has need of it; importing this package stays cheap for all others.
    if name == "LeakError":
        from ._tracking.regions import LeakError

        return LeakError
    if name == "cmake_prefix_path":
        from ._common import installation

        return installation.cmake_prefix_path()
    if name == "integrations":
        import importlib

        return importlib.import_module(".integrations", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _device_number(device: int | str | object) -> int:
    import torch

    if device is None:
        return torch.cuda.current_device()
    try:
        return operator.index(device)  # type: ignore[arg-type]
    except TypeError:
        pass
    try:
        named = torch.device(device)  # type: ignore[arg-type]
    except (RuntimeError, TypeError):
        named = None
    if named is None or named.type != "cuda":
        raise FrugalAllocError(f"{device!r} is not a CUDA device; give a number, 'cuda:0' or a torch.device")
    return torch.cuda.current_device() if named.index is None else named.index
