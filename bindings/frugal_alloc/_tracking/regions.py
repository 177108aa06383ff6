"""What a region of a program allocates and leaves in use, by line: ``track()`` and ``no_leaks()``."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Mapping
from typing import Any

from .. import _native
from .._common.messages import format_bytes
from .._heap import live_objects
from .._native.sites import NO_LINE, site_text

MOST_LINES = 10

# Bytes by GPU and site.
_Usage = Mapping[tuple[int, int], int]


def _live_bytes(library: _native.Library) -> dict[tuple[int, int], int]:
    return {(usage.gpu, usage.site): usage.live_bytes for usage in library.site_usages()}


def _grown(library: _native.Library, before: _Usage, after: _Usage) -> dict[str, int]:
    """How many bytes more each of the user's lines holds, the largest first; lines that hold less are left out."""
    grown: dict[str, int] = {}
    for key in before.keys() | after.keys():
        text = site_text(library, key[1])
        grown[text] = grown.get(text, 0) + after.get(key, 0) - before.get(key, 0)
    largest = sorted(grown.items(), key=lambda entry: -entry[1])
    return {text: size for text, size in largest if size > 0}


def _first(lines: list[str]) -> list[str]:
    """As many as a reader looks at, and how many there are more."""
    more = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + ([f"  and {more} more lines"] if more > 0 else [])


# Regions that are open now, in all threads: the peaks by line are the process's.
_open: list[Region] = []


class Region(contextlib.ContextDecorator):
    """A region that was, or is being, looked at; ``str()`` is a table. All figures are of the whole process.

    Attributes:
        peak: Bytes by line that were in use at the peak, and were not at the beginning.
        kept: Bytes by line that are in use at the end, and were not at the beginning.
    """

    def __init__(self, name: str = "", prints: bool = False) -> None:
        self.name = name
        self.peak: dict[str, int] = {}
        self.kept: dict[str, int] = {}
        self._prints = prints
        self._before: _Usage = {}
        self._at_peak: _Usage = {}

    def __call__(self, function: Any) -> Any:
        self.name = self.name or getattr(function, "__qualname__", "")
        self._prints = True
        return super().__call__(function)

    def _recreate_cm(self) -> Region:
        # Each call of a decorated function is a region of its own.
        return type(self)(self.name, prints=True)

    def __enter__(self) -> Region:
        library = _native.required()
        _note_peaks(library)
        library.record_in_detail()
        self._before = self._at_peak = _live_bytes(library)
        _open.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        library = _native.required()
        _note_peaks(library)
        _open.remove(self)
        after = _live_bytes(library)
        # The peaks by site are within 2 %: what is kept was in use, too.
        self.note_peak(after)
        self.kept = _grown(library, self._before, after)
        self.peak = _grown(library, self._before, self._at_peak)
        if self._prints:
            print(self, end="", file=sys.stderr)

    def note_peak(self, at_peak: _Usage) -> None:
        """What was in use by site when most was, since this was last called."""
        if sum(at_peak.values()) > sum(self._at_peak.values()):
            self._at_peak = at_peak

    def __str__(self) -> str:
        title = self.name or "the region"
        peak, kept = format_bytes(sum(self.peak.values())), format_bytes(sum(self.kept.values()))
        lines = list(dict.fromkeys([*self.kept, *self.peak]))
        lines.sort(key=lambda line: -max(self.peak.get(line, 0), self.kept.get(line, 0)))
        rows = [
            f"  {format_bytes(self.peak.get(line, 0)):>11}  {format_bytes(self.kept.get(line, 0)):>11}  {line}"
            for line in lines
        ]
        head = [f"{title}: {peak} more at its peak, {kept} kept"]
        head += [f"  {'at the peak':>11}  {'kept':>11}"] if rows else []
        return "\n".join(head + _first(rows)) + "\n"


def _note_peaks(library: _native.Library) -> None:
    """Tells the open regions of the peak since the last call, and begins the next stretch."""
    at_peak = {(usage.gpu, usage.site): usage.peak_bytes for usage in library.site_usages()}
    for region in _open:
        region.note_peak(at_peak)
    for gpu in library.gpus():
        library.restart_site_peaks(gpu)


class LeakError(AssertionError):
    """More GPU memory is allocated than at the beginning of a :func:`frugal_alloc.no_leaks` block."""

    __module__ = "frugal_alloc"


class NoLeaks(contextlib.ContextDecorator):
    """The context manager; see :func:`frugal_alloc.no_leaks`."""

    def __init__(self, allow_bytes: int) -> None:
        self._allow_bytes = allow_bytes
        # Of each block that is open, as one may be within another.
        self._before: list[tuple[dict[int, int], _Usage]] = []

    def _recreate_cm(self) -> NoLeaks:
        return type(self)(self._allow_bytes)

    def __enter__(self) -> NoLeaks:
        gc.collect()
        # What cuBLAS keeps goes first: the line that made it holds less afterwards, and may be the one that leaks.
        in_use = _in_use()
        library = _native.loaded()
        self._before.append((in_use, {} if library is None else _live_bytes(library)))
        if library is not None:
            library.record_in_detail()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        before, sites = self._before.pop()
        if kind is not None:
            return
        gc.collect()
        grown = {gpu: more for gpu, size in _in_use().items() if (more := size - before.get(gpu, 0)) > 0}
        if sum(grown.values()) > self._allow_bytes:
            raise LeakError(_leak_message(grown, sites))


def _in_use() -> dict[int, int]:
    """Bytes in tensors on each GPU, in whoever's memory they are."""
    import torch

    if not torch.cuda.is_initialized():
        return {}
    clear_workspaces()
    return {gpu: torch.cuda.memory_allocated(gpu) for gpu in range(torch.cuda.device_count())}


def clear_workspaces(objects: list[Any] | None = None) -> None:
    """Lets go of what cuBLAS keeps to work in: the first product on a stream takes it, whoever's that is.

    Not while there are CUDA graphs among the objects (None: all), which may have been captured with one.
    """
    import torch

    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    objects = live_objects.all_of_them() if objects is None else objects
    has_graphs = any(issubclass(kind, torch.cuda.CUDAGraph) for kind in set(map(type, objects)))
    if clear is None or has_graphs or not torch.cuda.is_initialized():
        return
    if not torch.cuda.is_current_stream_capturing():
        clear()


def _leak_message(grown: dict[int, int], sites: _Usage) -> str:
    """`grown`: by GPU, more than nothing; `sites`: what they held before."""
    parts = [f"{format_bytes(size)} on GPU {gpu}" for gpu, size in grown.items()]
    head = f"GPU memory is still in use that was not before: {', '.join(parts)}"
    library = _native.loaded()
    if library is None:
        return f"{head} (frugal_alloc.enable() before it would tell the lines)"
    by_line = _grown(library, sites, _live_bytes(library))
    lines = _first([f"  {format_bytes(size):>11}  {line}" for line, size in by_line.items()])
    total = sum(grown.values())
    # What lines hold in small blocks is estimated once there are many.
    if (rest := total - sum(by_line.values())) > total // 10:
        lines.append(f"  {format_bytes(rest):>11}  {NO_LINE} (memory of CUDA graphs or a MemPool, or track is off)")
    return "\n".join([head, *lines])
