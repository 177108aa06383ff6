"""A journal of what PyTorch's own allocator does where this package has no library for that PyTorch: out of the history
that PyTorch keeps.

Events of that history have no time in all versions. So what is noted beside them keeps how many blocks PyTorch had
handed out and taken back by then.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._native import journal
from .._native.journal import JOURNAL_ENTRY, JournalEntry
from .._native.sites import Frame, Site
from .._program.uncompiled import uncompiled
from . import machine
from .marks import BACKWARD, COPIED_FROM_HOST, WORKSPACE

_KINDS = {
    "alloc": journal.ALLOCATION,
    "free_requested": journal.FREE_REQUESTED,
    "free_completed": journal.FREE_COMPLETED,
    "segment_alloc": journal.SEGMENT_TAKEN,
    "segment_map": journal.SEGMENT_TAKEN,
    "segment_free": journal.SEGMENT_GIVEN,
    "segment_unmap": journal.SEGMENT_GIVEN,
    "oom": journal.OUT_OF_MEMORY,
}
_WITH_SITES = (journal.ALLOCATION, journal.SEGMENT_TAKEN, journal.OUT_OF_MEMORY)
_HELD = {journal.SEGMENT_TAKEN: 1, journal.SEGMENT_GIVEN: -1}
_MODULE_FILE = os.path.join("torch", "nn", "modules", "module.py")
_CALLS = ("_call_impl", "_wrapped_call_impl")
_OBSERVER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint64, ctypes.c_int64)
# As the simulated machine numbers what it tells of addresses.
_OBSERVED = {1: COPIED_FROM_HOST, 2: WORKSPACE}


class _Count(NamedTuple):
    """Of a GPU, at one moment."""

    allocated: int  # blocks, since the start
    freed: int  # and used by no stream any more
    outside_bytes: int  # in use beside what PyTorch's allocator holds


class _Note(NamedTuple):
    counts: Sequence[_Count]  # by GPU
    entry: JournalEntry | None  # None: the end


class HistoryJournal:
    """The functions of the library's journal that `fit` uses. May be called from any thread.

    Which node of a backward pass asks for memory is not known, nor whether a thread records for one: that is taken for
    granted in a program that makes backward passes.
    """

    def __init__(self) -> None:
        self._module_calls = 0
        self._notes: list[_Note] = []
        self._texts: dict[str, int] = {}
        self._sites: dict[tuple[Frame, ...], int] = {}
        # By the number of a site, of which 0 is none: the flag of what is asked for there.
        self._in_module = [0]

    def journal_start(self) -> None:
        import torch

        torch.cuda._lazy_call(lambda: torch.cuda.memory._record_memory_history(stacks="python"))
        uncompiled(_is_outermost_call, calls_ours_only=True)
        torch.nn.modules.module.register_module_forward_pre_hook(uncompiled(self._module_called, calls_ours_only=True))

    def is_enabled(self) -> bool:
        """Whether our allocator is on, for which there is no library."""
        return False

    def _module_called(self, module: Any, inputs: Any) -> None:
        self._module_calls += _is_outermost_call(sys._getframe(1))

    def journal_observe_simulation(self) -> None:
        self._observer = _OBSERVER(lambda kind, address, _: self.journal_label(address, _OBSERVED[kind]))
        machine.function("set_observer")(self._observer)
        atexit.register(machine.function("set_observer"), None)

    def journal_mark(self, text: str) -> None:
        self._note(journal.MARK, 0, text)

    def journal_label(self, address: int, text: str) -> None:
        self._note(journal.LABEL, address, text)

    def journal_module_calls(self) -> int:
        return self._module_calls

    def journal_write(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_bytes(b"".join(JOURNAL_ENTRY.pack(*entry) for entry in self._entries()))

    def journal_texts(self) -> list[str]:
        return list(self._texts)

    def journal_sites(self) -> set[int]:
        """Of what was written."""
        return set(self._sites.values())

    def site(self, number: int) -> Site:
        frames = next(frames for frames, known in self._sites.items() if known == number)
        return Site(number, "", frames, "", 0)

    def _note(self, kind: int, address: int, text: str) -> None:
        number = self._texts.setdefault(text, len(self._texts))
        self._notes.append(_Note(_counts(), JournalEntry(address, 0, 0, -1, number, kind, 0, -1)))

    def _entries(self) -> Iterator[JournalEntry]:
        import torch

        if not torch.cuda.is_initialized():
            return
        notes, end = list(self._notes), _counts()
        flags = journal.WITH_GRADIENTS if BACKWARD in self._texts else 0
        traces = [_Trace(gpu, events) for gpu, events in enumerate(torch.cuda.memory._snapshot()["device_traces"])]
        for counts, entry in [*notes, _Note(end, None)]:
            for trace, count in zip(traces, counts, strict=False):
                for event, made in trace.until(count):
                    site = self._site(event) if made.kind in _WITH_SITES else 0
                    yield made._replace(site=site, flags=flags | self._in_module[site])
            if entry is not None:
                yield entry

    def _site(self, event: Mapping[str, Any]) -> int:
        frames = tuple(Frame(frame["filename"], frame["line"], frame["name"]) for frame in event["frames"])
        if frames not in self._sites:
            self._sites[frames] = len(self._in_module)
            is_in_module = any(f.function in _CALLS and f.file.endswith(_MODULE_FILE) for f in frames)
            self._in_module.append(journal.IN_MODULE if is_in_module else 0)
        return self._sites[frames]


class _Trace:
    """The history of a GPU."""

    def __init__(self, gpu: int, events: Sequence[Mapping[str, Any]]) -> None:
        self._gpu = gpu
        self._events = iter(events)
        self._kinds = collections.Counter[int]()
        self._held_bytes = 0

    def until(self, moment: _Count) -> Iterator[tuple[Mapping[str, Any], JournalEntry]]:
        """The events up to there that were not given yet, each with its entry."""
        kinds = self._kinds
        while kinds[journal.ALLOCATION] < moment.allocated or kinds[journal.FREE_COMPLETED] < moment.freed:
            event = next(self._events, None)
            if event is None:
                return
            kind = _KINDS.get(event["action"])
            if kind is None:
                continue
            kinds[kind] += 1
            self._held_bytes += event["size"] * _HELD.get(kind, 0)
            address = event["addr"] if "addr" in event else event["device_free"]
            used = self._held_bytes + moment.outside_bytes
            yield event, JournalEntry(address, event["size"], event["stream"], used, 0, kind, 0, self._gpu)


def _is_outermost_call(frame: types.FrameType | None) -> bool:
    """Whether the call of a module that a frame belongs to is in no other."""
    calls = 0
    while frame is not None and calls < 2:
        calls += frame.f_code.co_name == _CALLS[0] and frame.f_code.co_filename.endswith(_MODULE_FILE)
        frame = frame.f_back
    return calls < 2


def _counts() -> list[_Count]:
    import torch

    if not torch.cuda.is_initialized():
        return []
    counts = []
    for gpu in range(torch.cuda.device_count()):
        figures = torch.cuda.memory_stats_as_nested_dict(gpu)
        used = sum(machine.function(name)(gpu) for name in ("memory_used", "memory_of_driver"))
        outside = used - figures["reserved_bytes"]["all"]["current"]
        counts.append(_Count(figures["allocation"]["all"]["allocated"], figures["active"]["all"]["freed"], outside))
    return counts
