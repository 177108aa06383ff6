"""The report as a document: all that is known about a run's memory, as plain data that JSON can hold."""

from __future__ import annotations

import datetime
import os
import sys
from typing import Any

from .. import _native
from .._common import installation
from .._native import Library
from .._native.sites import Frame, site_stack, users_line
from .._program import code_lines
from .._tracking import current, verdicts
from .._tracking.tracker import Tracker
from .._tracking.verdicts import Judgement
from . import gpus, latest_error
from .schema import SCHEMA, VERSION

# More sites say nothing new: they are the smallest.
MOST_SITES = 1000


class FrameTable:
    """The frames of all stacks, each once; stacks are lists of their numbers."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._numbers: dict[Frame, int] = {}

    def stack(self, frames: tuple[Frame, ...] | list[Frame]) -> list[int]:
        return [self._number(frame) for frame in frames]

    def _number(self, frame: Frame) -> int:
        number = self._numbers.get(frame)
        if number is None:
            number = self._numbers[frame] = len(self.rows)
            file, line, function = frame
            self.rows.append({"file": file, "line": line, "function": function, "code": code_lines.source(file, line)})
        return number


def judge(library: Library, searches: bool = True) -> Judgement:
    """What the document says of GPUs and leaks as of now; see :func:`verdicts.judge`."""
    tracker = current()
    rows = [gpus.row(library, gpu) for gpu in library.gpus()]
    return Judgement(rows, [], 0, []) if tracker is None else verdicts.judge(library, tracker, rows, searches)


def build(oom: dict[str, Any] | None = None, judged: Judgement | None = None) -> dict[str, Any]:
    """The document of this process as it is now, the newest version of the schema (docs/reference/report.md).

    Looks through Python's objects for what holds leaked memory, with the GIL held all the while; it keeps none of them.

    Args:
        oom: What is known of an error that is under way, its "stack" still in frames; None: there is none, and what is
            told is the latest one, if there was any.
        judged: What :func:`judge` said just now, which takes most of the time.

    Raises:
        FrugalAllocError: frugal_alloc was never enabled.
    """
    library = _native.required()
    tracker = current()
    frames = FrameTable()
    is_under_way = oom is not None
    oom = oom or latest_error.last()
    if oom is not None:
        oom = {
            **oom,
            "stack": frames.stack(oom["stack"]),
            "errors": latest_error.met(),
            "went_on": not is_under_way and latest_error.has_gone_on(),
            "caught": not is_under_way and latest_error.is_caught(),
        }
    judged = judge(library) if judged is None else judged
    rows = [row | {"stack": frames.stack(row["stack"])} for row in judged.verdicts]
    sites, index = _sites(library, frames) if tracker is not None else ([], {})
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "run": _run(tracker),
        "epochs": _epochs(library, tracker),
        "gpus": judged.gpus,
        "verdicts": with_cells(rows),
        "suppressed": judged.silenced,
        "frames": with_cells(frames.rows),
        "sites": with_cells(sites),
        "timeline": _timeline(tracker),
        "segments": _segments(library, index),
        "oom": with_cells(oom),
        "notes": _notes(library, tracker) + judged.notes,
    }


def with_cells(value: Any) -> Any:
    """The value with the files of a notebook's cells named as its user knows them, which only this process can."""
    if isinstance(value, list):
        return [with_cells(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    named = {key: with_cells(inner) if isinstance(inner, (dict, list)) else inner for key, inner in value.items()}
    return named | {"file": code_lines.file_name(named["file"])} if named.get("file") else named


def _run(tracker: Tracker | None) -> dict[str, Any]:
    import torch

    from .. import __version__

    now = datetime.datetime.now(datetime.timezone.utc)
    started = datetime.datetime.fromtimestamp(tracker.started, datetime.timezone.utc) if tracker is not None else now
    rank, world_size = rank_and_world_size()
    return {
        "command": [os.path.basename(sys.executable or "python"), *sys.argv],
        "pid": os.getpid(),
        "rank": rank,
        "world_size": world_size,
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "frugal_alloc": __version__,
        "started": started.isoformat(timespec="seconds"),
        "written": now.isoformat(timespec="seconds"),
        "simulated": installation.is_simulated(),
    }


def rank_and_world_size() -> tuple[int | None, int | None]:
    """Of torch.distributed if it is set up, else as a launcher says; None where there are none."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, world_size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return (int(rank) if rank.isdecimal() else None), (int(world_size) if world_size.isdecimal() else None)


def _epochs(library: Library, tracker: Tracker | None) -> dict[str, Any]:
    if tracker is None:
        return {"ended": library.epochs_ended(), "found_by": "none", "steps": 0, "steps_per_epoch": None}
    epochs = tracker.epochs
    per_window = {"steps": epochs.window_steps or 1, "calls": epochs.calls_per_epoch}.get(epochs.found_by)
    return {
        "ended": library.epochs_ended() if per_window else epochs.ended,
        "unwatched": epochs.unwatched,
        "unwatched_steps": epochs.unwatched_steps,
        "found_by": epochs.found_by,
        "steps": epochs.steps,
        "steps_per_epoch": float(per_window) if per_window else epochs.steps_per_epoch,
        "seconds_per_epoch": epochs.seconds_per_epoch,
    }


def _sites(library: Library, frames: FrameTable) -> tuple[list[dict[str, Any]], dict[tuple[int, int], int]]:
    """The sites that hold or held memory, the largest first, and where to find each by GPU and number."""
    usages = sorted(library.site_usages(), key=lambda usage: -max(usage.live_bytes, usage.peak_bytes))
    rows, index = [], {}
    for usage in usages[:MOST_SITES]:
        site = library.site(usage.site)
        index[usage.gpu, usage.site] = len(rows)
        place = users_line(library, site)
        rows.append(
            {
                "gpu": usage.gpu,
                **(place._asdict() if place else dict.fromkeys(Frame._fields)),
                "phase": site.phase,
                "node": site.node,
                "bytes": usage.live_bytes,
                "blocks": usage.blocks,
                "peak_bytes": usage.peak_bytes,
                "stack": frames.stack(site_stack(library, site)),
            }
        )
    return rows, index


def _timeline(tracker: Tracker | None) -> dict[str, Any]:
    if tracker is None:
        return {"phases": [""], "points": [], "epoch_ends": []}
    phases: dict[str, int] = {"": 0}
    points = []
    for point in list(tracker.timeline.points):
        phase = phases.setdefault(point.phase, len(phases))
        memory = (point.allocated_bytes, point.peak_bytes, point.reserved_bytes)
        points.append([point.gpu, point.step, point.epoch, phase, *memory])
    return {"phases": list(phases), "points": points, "epoch_ends": [list(end) for end in tracker.timeline.epoch_ends]}


def _segments(library: Library, index: dict[tuple[int, int], int]) -> list[dict[str, Any]]:
    return [
        segment._asdict()
        | {
            "blocks": [
                [block.address - segment.address, block.bytes, block.state, index.get((segment.gpu, block.site))]
                for block in segment.blocks
            ]
        }
        for segment in library.segments()
    ]


def _notes(library: Library, tracker: Tracker | None) -> list[str]:
    notes = []
    if installation.is_simulated():
        notes.append("on a simulated GPU: memory is as on a real one, time is not")
    for gpu in library.gpus():
        if promise := library.broken_promise(gpu):
            notes.append(f"GPU {gpu}: {promise}")
        if host := library.host_memory(gpu):
            notes.append(f"GPU {gpu}: {host}")
    if left_out := library.sites_left_out():
        notes.append(
            f"of {left_out:,} allocations it is not known where they were made: memory was asked for in more than "
            "65,000 places, as a program does that makes up code as it runs"
        )
    if tracker is None:
        return [
            *notes,
            "nothing was tracked: the setting track is off, or this process was forked from one that is tracked",
        ]
    if not tracker.is_watching:
        why = "the setting track is off" if library.is_enabled() else "frugal_alloc is disabled"
        notes.append(f"{why}: nothing is known of what was allocated since then")
    if tracker.failure:
        notes.append(f"tracking stopped early: {tracker.failure}")
    epochs = tracker.epochs
    if epochs.found_by == "data_loader":
        notes.append("epochs are guessed from the training's DataLoader starting over; epoch_end() would say it")
    elif epochs.found_by == "steps":
        steps = "optimizer steps" if tracker.steps.has_optimizer else "backward passes"
        notes.append(
            f"epochs are guessed from {steps}, {epochs.window_steps} to each, since no epoch has ended yet; "
            "epoch_end() would say it"
        )
    elif epochs.found_by == "calls":
        notes.append(
            f"epochs are guessed from calls of modules, {epochs.calls_per_epoch} to each, since nothing steps and "
            f"no DataLoader was used; epoch_end() {'was called once only' if epochs.ended else 'would say it'}"
        )
    elif epochs.found_by == "none":
        notes.append("nothing can be said about leaks: no epoch has ended and no optimizer has stepped")
    return notes
