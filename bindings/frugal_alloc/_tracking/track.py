"""What a region of a program allocates at its peak, and what it keeps, by line."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from .. import _native
from .._common.messages import format_bytes
from . import site_changes

MOST_LINES = 10

# Regions that are open now, in all threads: the peaks by line are the process's.
_open: list[Region] = []


class Region(contextlib.ContextDecorator):
    """A region that was, or is being, looked at; ``str()`` is a table. All figures are of the whole process.

    Attributes:
        peak: Bytes by line that were in use at the peak, and were not at the beginning.
        kept: Bytes by line that are in use at the end, and were not at the beginning.
    """

    def __init__(self, name: str = "", is_told: bool = False) -> None:
        self.name = name
        self.peak: dict[str, int] = {}
        self.kept: dict[str, int] = {}
        self._is_told = is_told
        self._before: dict[tuple[int, int], int] = {}
        self._at_peak: dict[tuple[int, int], int] = {}

    def __call__(self, function: Any) -> Any:
        self.name = self.name or getattr(function, "__qualname__", "")
        self._is_told = True
        return super().__call__(function)

    def _recreate_cm(self) -> Region:
        # Each call of a decorated function is a region of its own.
        return type(self)(self.name, is_told=True)

    def __enter__(self) -> Region:
        library = _loaded()
        _note_peaks(library)
        library.record_in_detail()
        self._before = site_changes.live_bytes(library)
        self._at_peak = dict(self._before)
        _open.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        library = _loaded()
        _note_peaks(library)
        _open.remove(self)
        after = site_changes.live_bytes(library)
        # The peaks by site are within 2 %: what is kept was in use, too.
        self.note_peak(after)
        self.kept = site_changes.by_line(library, self._before, after)
        self.peak = site_changes.by_line(library, self._before, self._at_peak)
        if self._is_told:
            print(self, end="", file=sys.stderr)

    def note_peak(self, at_peak: dict[tuple[int, int], int]) -> None:
        """What was in use by site when most was, since this was last called."""
        if sum(at_peak.values()) > sum(self._at_peak.values()):
            self._at_peak = at_peak

    def __str__(self) -> str:
        title = self.name or "the region"
        peak, kept = format_bytes(sum(self.peak.values())), format_bytes(sum(self.kept.values()))
        lines = [f"{title}: {peak} more at its peak, {kept} kept"]
        sites = list(dict.fromkeys([*self.kept, *self.peak]))
        sites.sort(key=lambda site: -max(self.peak.get(site, 0), self.kept.get(site, 0)))
        lines += [f"  {'at the peak':>11}  {'kept':>11}"] if sites else []
        for site in sites[:MOST_LINES]:
            peak, kept = format_bytes(self.peak.get(site, 0)), format_bytes(self.kept.get(site, 0))
            lines.append(f"  {peak:>11}  {kept:>11}  {site}")
        if len(sites) > MOST_LINES:
            lines.append(f"  and {len(sites) - MOST_LINES} more lines")
        return "\n".join(lines) + "\n"


def _note_peaks(library: _native.Library) -> None:
    """Tells the open regions of the peak since the last call, and begins the next stretch."""
    at_peak = {(usage.gpu, usage.site): usage.peak_bytes for usage in library.site_usages()}
    for region in _open:
        region.note_peak(at_peak)
    for gpu in library.gpus():
        library.restart_site_peaks(gpu)


def _loaded() -> _native.Library:
    library = _native.loaded()
    if library is None:
        raise _native.FrugalAllocError("frugal_alloc is not enabled: call frugal_alloc.enable() first")
    return library
