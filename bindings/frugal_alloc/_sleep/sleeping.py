"""Falling asleep and waking: :func:`frugal_alloc.sleep`, :func:`frugal_alloc.wake`, :func:`frugal_alloc.asleep`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from .. import _interruptions, _native
from .._common.messages import format_bytes, format_columns
from .._heap import live_objects
from .._program import code_lines
from .._tracking import regions
from . import graphs, storages, tags

_HOSTS = ("pinned", "pageable")
_CHECKS = (None, "poison")


class Stayed(NamedTuple):
    """Memory that was meant to sleep and is awake."""

    gpu: int
    bytes: int
    tag: str  # "": none
    why: str
    line: str  # that allocated it, as "train.py:12"; "": not known


class Slept:
    """What one call of :func:`frugal_alloc.sleep` did; printed it is a short text.

    Attributes:
        slept_bytes: What fell asleep, of all GPUs: blocks as they are handed out.
        copied_bytes: Of these, what lies in host memory now.
        dropped_bytes: Of these, what was not copied.
        given_back_bytes: Physical memory that went to the driver.
        host_bytes: Host memory that was taken for the copies.
        tags: Bytes that fell asleep by tag; "": those without one.
        stayed: What was meant to sleep and did not, each with ``gpu``, ``bytes``, ``tag``, ``why`` and ``line``.
    """

    def __init__(self, gpus: list[dict[str, Any]]) -> None:
        self.slept_bytes = _sum(gpus, "slept_bytes")
        self.copied_bytes = _sum(gpus, "copied_bytes")
        self.dropped_bytes = _sum(gpus, "dropped_bytes")
        self.given_back_bytes = _sum(gpus, "given_back_bytes")
        self.host_bytes = _sum(gpus, "host_bytes")
        self.tags: dict[str, int] = _by_tag(gpus, "slept_bytes")
        self.stayed = [
            Stayed(gpu["gpu"], row["bytes"], row["tag"], row["why"], _short(row["site"]))
            for gpu in gpus
            for row in gpu["stayed"]
        ]

    def __str__(self) -> str:
        lines = [
            f"{format_bytes(self.slept_bytes)} asleep: {format_bytes(self.copied_bytes)} copied to host memory, "
            f"{format_bytes(self.dropped_bytes)} dropped; {format_bytes(self.given_back_bytes)} given back"
        ]
        rows = [(_shown(tag), format_bytes(size)) for tag, size in sorted(self.tags.items())]
        lines += [f"  {line}" for line in format_columns(rows, 1)] if rows else []
        if self.stayed:
            lines.append(f"{format_bytes(sum(each.bytes for each in self.stayed))} stayed awake:")
            largest = sorted(self.stayed, key=lambda each: -each.bytes)
            rows = [(_shown(each.tag), each.why, each.line, format_bytes(each.bytes)) for each in largest]
            lines += [f"  {line}" for line in format_columns(rows, 3)]
        return "\n".join(lines)


def _sum(gpus: list[dict[str, Any]], figure: str) -> int:
    return sum(gpu[figure] for gpu in gpus)


def _by_tag(gpus: list[dict[str, Any]], figure: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for gpu in gpus:
        for row in gpu["tags"]:
            found[row["tag"]] += row[figure]
    return dict(found)


def _short(site: str) -> str:
    file, _, line = site.rpartition(":")
    return code_lines.written(file, int(line)) if file else ""


def _shown(tag: str) -> str:
    return tag or "(no tag)"


def sleep(
    named: str | Iterable[str] | None,
    keep: str | Iterable[str],
    drop: str | Iterable[str],
    host: str,
    check: str | None,
) -> Slept:
    """See :func:`frugal_alloc.sleep`."""
    library = _native.required()
    chosen = None if named is None else tags.names(named, "tags")
    kept, dropped = tags.names(keep, "keep"), tags.names(drop, "drop")
    for name in dropped:
        if name in kept:
            raise _native.FrugalAllocError(f"{name!r} is in keep and in drop; name it in one of them")
        if chosen is not None and name not in chosen:
            raise _native.FrugalAllocError(f"drop names {name!r}, which is not among tags; name it there, too")
    _check_choice("host", host, _HOSTS)
    _check_choice("check", check, _CHECKS)
    objects = live_objects.all_of_them()
    regions.clear_workspaces(objects)
    # What is found is what sleeps, so that it is also what is marked.
    awake = storages.awake(library, objects)
    del objects
    cells = [one._cdata for one in awake]
    graphs.guard_replays(library)
    try:
        return Slept(library.sleep(chosen, kept, dropped, host, check == "poison", cells, graphs.why_awake()))
    finally:
        # An interruption that came meanwhile is raised once the library has returned.
        _interruptions.to_its_end(_mark, library, awake)


def _mark(library: _native.Library, awake: list[Any]) -> None:
    storages.mark_asleep(library, awake)
    graphs.note_asleep(library)


def _check_choice(argument: str, given: Any, possible: tuple[str | None, ...]) -> None:
    if given not in possible:
        raise _native.FrugalAllocError(
            f"{argument}={given!r:.200} is not possible; give {' or '.join(map(repr, possible))}"
        )


def wake(named: str | Iterable[str] | None) -> int:
    """See :func:`frugal_alloc.wake`."""
    library = _native.required()
    try:
        return _sum(library.wake(None if named is None else tags.names(named, "tags")), "woken_bytes")
    finally:
        _interruptions.to_its_end(graphs.note_asleep, library)


def asleep() -> dict[str, int]:
    """See :func:`frugal_alloc.asleep`."""
    library = _native.loaded()
    return {} if library is None else _by_tag(library.asleep(), "asleep_bytes")
