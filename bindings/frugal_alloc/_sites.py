"""The library's functions about sites, leaks and running out of memory, for Python; see bindings/c_api/c_api.h.

A *site* is where memory was asked for: the lines of Python that led there, the node of a backward pass, or a phase that
the program names. Importing this module imports neither torch nor the library.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _interruptions
from ._program import uncompiled, users_code


class Frame(NamedTuple):
    """A line of Python that was being carried out."""

    file: str
    line: int
    function: str


class Site(NamedTuple):
    """Where memory was asked for."""

    number: int
    #: As :func:`frugal_alloc.phase` or a C++ Phase named the phase that its thread was in; "": none.
    phase: str
    #: The innermost first; none on threads without Python.
    frames: tuple[Frame, ...]
    #: In a backward pass, the node that was evaluated, such as "MulBackward0" or "autograd.Function Swish"; else "".
    node: str
    #: Number of the site at which that node was made; 0: not known.
    forward: int


class SiteUsage(NamedTuple):
    """What a site holds of a GPU."""

    gpu: int
    site: int
    live_bytes: int
    blocks: int
    #: What it held when most of the GPU's memory was in use.
    peak_bytes: int


class Finding(NamedTuple):
    """A line of the program that leaks, grows, or is suspected to leak."""

    kind: str  # "leak", "suspect" or "growing"
    gpu: int
    site: int  # the one of the line's that grows most
    bytes: int  # kept from past epochs, without those of the first two; of "growing": in use
    blocks: int
    epochs: int  # that the bytes are from
    bytes_per_epoch: float
    confidence: float  # that it grows at all, from 0 to 1
    largest_block: int


class BlockRecord(NamedTuple):
    """A block of a segment."""

    address: int
    bytes: int
    state: str  # "free", "allocated", or "awaiting": freed, but a stream may still use it
    site: int  # 0 where not recorded
    epoch: int  # of birth; -1 where not recorded


class SegmentRecord(NamedTuple):
    """A run of addresses with memory behind them."""

    gpu: int
    address: int
    bytes: int
    stream: int
    mapped: bool  # of handles that can move; False: a segment of cudaMalloc
    blocks: list[BlockRecord]


class OutOfMemory(NamedTuple):
    """All that is known of a request that could not be served."""

    gpu: int
    requested_bytes: int
    site: int
    verdict: str  # "too_big", "leak", "fragmentation" or "outside"
    allocated_bytes: int
    awaiting_bytes: int  # freed, but a stream may still use them
    reserved_bytes: int
    native_reserved_bytes: int
    limit_bytes: int
    device_free_bytes: int
    device_total_bytes: int
    outside_bytes: int  # in use, but neither ours nor PyTorch's
    largest_free_bytes: int  # block of ours
    unusable_bytes: int  # free, but in handles that tensors in use share
    missing_bytes: int  # by so much the request did not fit
    limit_name: str
    tried: list[tuple[str, int]]  # what was tried, and the bytes that each gained
    host: str = ""  # where the GPU's memory is the host's: who has it
    host_own_bytes: int = 0  # pageable memory of this process, then


_VERDICTS = ("too_big", "leak", "fragmentation", "outside")
_FINDINGS = {1: "suspect", 2: "leak", 3: "growing"}
_STATES = ("free", "allocated", "awaiting")


def _structure(name: str, fields: str) -> type[ctypes.Structure]:
    """A C structure; `fields` are "type name", separated by semicolons, as in bindings/c_api/c_api.h."""
    types = {
        "int": ctypes.c_int,
        "int64": ctypes.c_int64,
        "uint64": ctypes.c_uint64,
        "double": ctypes.c_double,
        "text": ctypes.c_char_p,
    }
    pairs = [field.split() for field in fields.split(";")]
    return type(name, (ctypes.Structure,), {"_fields_": [(field, types[kind]) for kind, field in pairs]})


_Line = _structure("_Line", "text file; text function; int line")
_Site = _structure("_Site", "text phase; text node; int forward; int user; int lines")
_Usage = _structure("_Usage", "int site; int64 bytes; int64 blocks; int64 peak_bytes")
_Block = _structure("_Block", "uint64 address; int64 bytes; int64 epoch; int site; int state")
_Segment = _structure("_Segment", "uint64 address; int64 bytes; uint64 stream; int64 blocks; int mapped")
_Finding = _structure(
    "_Finding",
    "int verdict; int gpu; int site; text name; int64 largest_block; int64 bytes; int64 blocks; int64 epochs; "
    "double bytes_per_epoch; double confidence; int material",
)
_OutOfMemory = _structure(
    "_OutOfMemory",
    "int gpu; int verdict; int site; int64 requested; int64 missing; int64 allocated; int64 awaiting; int64 reserved; "
    "int64 native_reserved; int64 limit; int64 device_free; int64 device_total; int64 outside; int64 largest_free; "
    "int64 unusable; int64 stream_waits; int64 caches; int64 garbage; int64 host_waits; text limit_name; text host; "
    "int64 host_own",
)

# The result is an address, as the text must outlive the call.
EXPLAINER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_OutOfMemory))
# Called with the interpreter's lock.
LISTENER = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
SCHEDULE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

# Result and arguments of each function, as bindings/c_api/c_api.h declares them.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "frugal_read_python": (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int),
    "frugal_forget_python": (None,),
    "frugal_set_code_owners": (None, ctypes.c_char_p),
    "frugal_phase": (ctypes.c_int, ctypes.c_char_p),
    "frugal_set_phase": (ctypes.c_int, ctypes.c_int),
    "frugal_phase_name": (ctypes.c_char_p, ctypes.c_int),
    "frugal_expect_growth": (ctypes.c_int, ctypes.c_int),
    "frugal_describe_site": (ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Site)),
    "frugal_sites_left_out": (ctypes.c_int64,),
    "frugal_site_lines": (ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Line), ctypes.c_int),
    "frugal_site_usages": (ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Usage), ctypes.c_int),
    "frugal_restart_site_peaks": (None, ctypes.c_int),
    "frugal_take_peak": (
        ctypes.c_int64,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_int64),
        ctypes.POINTER(ctypes.c_int64),
    ),
    "frugal_gpus": (ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "frugal_take_snapshot": (ctypes.c_void_p, ctypes.c_int),
    "frugal_free_snapshot": (None, ctypes.c_void_p),
    "frugal_snapshot_segments": (ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(_Segment))),
    "frugal_snapshot_blocks": (ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(_Block))),
    "frugal_record_in_detail": (None,),
    "frugal_epoch_end": (ctypes.c_int,),
    "frugal_epochs_ended": (ctypes.c_int64,),
    "frugal_collapse_epochs": (ctypes.c_int,),
    "frugal_halve_epochs": (ctypes.c_int,),
    "frugal_count_module_calls": (None, ctypes.c_int),
    "frugal_module_calls_to_epoch": (ctypes.c_int64,),
    "frugal_set_epoch_listener": (None, SCHEDULE, LISTENER),
    "frugal_make_report": (ctypes.c_void_p,),
    "frugal_free_report": (None, ctypes.c_void_p),
    "frugal_report_findings": (ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Finding), ctypes.c_int),
    "frugal_set_explainer": (None, EXPLAINER),
}


class SiteFunctions:
    """A part of the library. May be called from any thread."""

    _library: ctypes.CDLL
    _explainers: tuple[Any, ...] = ()
    _listeners: tuple[Any, ...] = ()
    _beginnings: dict[str, str] | None = None

    def _check(self, result: int) -> int:
        raise NotImplementedError

    def read_python(self) -> bool:
        """Lets sites have lines of Python; False: this Python's frames cannot be read."""
        self.follow_path()
        # A debug build of Python keeps more in its structures.
        if hasattr(sys, "gettotalrefcount"):
            return False
        here = sys._getframe()
        file, function = here.f_code.co_filename.encode(errors="surrogateescape"), here.f_code.co_name.encode()
        return self._library.frugal_read_python(file, function, here.f_lineno) == 0

    def follow_path(self) -> None:
        """Tells the library whose code is whose, if that has changed: a program may put folders on its path."""
        beginnings = users_code.beginnings()
        if beginnings is not self._beginnings:
            self._beginnings = beginnings
            self._library.frugal_set_code_owners(_code_owners(beginnings))

    def set_phase(self, name: str) -> str:
        """What the calling thread allocates counts to this phase; "": to none. Returns the one before."""
        before = self._check(self._library.frugal_set_phase(self._library.frugal_phase(_encode(name))))
        return _decode(self._library.frugal_phase_name(before))

    def sites_left_out(self) -> int:
        """How often memory counted to no site, since there was no room for one more."""
        return self._library.frugal_sites_left_out()

    def site(self, number: int) -> Site:
        """A site that another function has named."""
        described = _Site()
        self._check(self._library.frugal_describe_site(number, described))
        lines = (_Line * described.lines)()
        self._library.frugal_site_lines(number, lines, described.lines)
        frames = tuple(Frame(_decode(line.file), line.line, _decode(line.function)) for line in lines)
        return Site(number, _decode(described.phase), frames, _decode(described.node), described.forward)

    def gpus(self) -> list[int]:
        """The GPUs that memory has been asked for."""
        return list(self._all(ctypes.c_int, self._library.frugal_gpus))

    def site_usages(self) -> list[SiteUsage]:
        """What each site holds now or held at the peak, on every GPU."""
        self.follow_path()
        return [
            SiteUsage(gpu, usage.site, usage.bytes, usage.blocks, usage.peak_bytes)
            for gpu in self.gpus()
            for usage in self._all(_Usage, self._library.frugal_site_usages, gpu)
        ]

    def restart_site_peaks(self, gpu: int) -> None:
        """From now on `SiteUsage.peak_bytes` is what was held when most was in use since now."""
        self._library.frugal_restart_site_peaks(gpu)

    def take_peak(self, gpu: int) -> tuple[int, int, int]:
        """The most of a GPU's memory that was in use since the last call, as far as it is recorded; what is in use and
        what is held now. `stats` says the latter, too, but its dictionary takes ten times as long."""
        in_use, held = ctypes.c_int64(), ctypes.c_int64()
        peak = self._library.frugal_take_peak(gpu, in_use, held)
        return peak, in_use.value, held.value

    def segments(self) -> list[SegmentRecord]:
        """Every GPU's memory as it is, in the order of addresses within each stream."""
        return [segment for gpu in self.gpus() for segment in self._segments_of(gpu)]

    def _segments_of(self, gpu: int) -> list[SegmentRecord]:
        snapshot = self._library.frugal_take_snapshot(gpu)
        try:
            segments, blocks = ctypes.POINTER(_Segment)(), ctypes.POINTER(_Block)()
            count = self._library.frugal_snapshot_segments(snapshot, ctypes.byref(segments))
            self._library.frugal_snapshot_blocks(snapshot, ctypes.byref(blocks))
            records, first = [], 0
            for segment in segments[:count]:
                records.append(
                    SegmentRecord(
                        gpu,
                        segment.address,
                        segment.bytes,
                        segment.stream,
                        bool(segment.mapped),
                        [_block_record(block) for block in blocks[first : first + segment.blocks]],
                    )
                )
                first += segment.blocks
            return records
        finally:
            self._library.frugal_free_snapshot(snapshot)

    def record_in_detail(self) -> None:
        """This thread records its next 10,000 allocations whatever their size; others do from their next sample on."""
        self._library.frugal_record_in_detail()

    def epoch_end(self) -> None:
        self.follow_path()
        self._check(self._library.frugal_epoch_end())

    def epochs_ended(self) -> int:
        return self._check(self._library.frugal_epochs_ended())

    def collapse_epochs(self) -> None:
        """All epochs so far become the first, which has not ended."""
        self._check(self._library.frugal_collapse_epochs())

    def halve_epochs(self) -> None:
        """Each two epochs become one."""
        self._check(self._library.frugal_halve_epochs())

    def count_module_calls(self, on: bool) -> None:
        """Lets the library end its epochs by itself, after so many calls of modules, or no more."""
        self._library.frugal_count_module_calls(int(on))

    def module_calls_to_epoch(self) -> int:
        """How many calls of modules make an epoch now; 0: they end none."""
        return self._library.frugal_module_calls_to_epoch()

    def set_epoch_listener(self, listen: Callable[[], None]) -> None:
        """`listen` is called soon after calls of modules have ended an epoch, in the main thread, between two of its
        instructions. Where the main thread does not run Python meanwhile, some ends are told as one."""

        def call(_: Any) -> int:
            listen()
            return 0

        # It may come in the midst of a compiled function.
        called = uncompiled.uncompiled(_interruptions.callback(call, otherwise=0), calls_ours_only=True)
        listener = LISTENER(called)
        schedule = ctypes.cast(ctypes.pythonapi.Py_AddPendingCall, SCHEDULE)
        self._library.frugal_set_epoch_listener(schedule, listener)
        # One that was set before may be scheduled still.
        self._listeners = (*self._listeners, listener, schedule)

    def findings(self) -> list[Finding]:
        """What leaks, as of the latest end of an epoch: the worst first."""
        report = self._library.frugal_make_report()
        if report is None:
            return []
        try:
            return [
                Finding(
                    _FINDINGS[finding.verdict],
                    finding.gpu,
                    finding.site,
                    finding.bytes,
                    finding.blocks,
                    finding.epochs,
                    finding.bytes_per_epoch,
                    finding.confidence,
                    finding.largest_block,
                )
                for finding in self._all(_Finding, self._library.frugal_report_findings, report)
            ]
        finally:
            self._library.frugal_free_report(report)

    def set_explainer(self, explain: Callable[[OutOfMemory], str | None]) -> None:
        """`explain` says why memory ran out: what it returns follows PyTorch's first sentences in the error.

        It is called on the thread that asked for memory, with the interpreter's lock and none of ours, after every
        remedy has failed. If it raises, or returns None, the library has a short text of its own.
        """
        # By thread: each text must stay until the next one of its thread.
        texts: dict[int, Any] = {}

        def call(facts: Any) -> int | None:
            text = explain(_out_of_memory(facts.contents))
            if text is None:
                return None
            buffer = ctypes.create_string_buffer(_encode(text))
            texts[threading.get_ident()] = buffer
            return ctypes.addressof(buffer)

        explainer = EXPLAINER(_interruptions.callback(call))
        self._library.frugal_set_explainer(explainer)
        # The library may call it for ever, and one that was set before may be at work in another thread.
        self._explainers = (*self._explainers, explainer)

    def _all(self, kind: Any, function: Any, *arguments: Any) -> Any:
        """All that a function writes into an array, however many there are by then."""
        capacity = 64
        while True:
            array = (kind * capacity)()
            count = self._check(function(*arguments, array, capacity))
            if count <= capacity:
                return array[:count]
            capacity = 2 * count


def _encode(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace")


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")


def _block_record(block: Any) -> BlockRecord:
    return BlockRecord(block.address, block.bytes, _STATES[block.state], max(block.site, 0), block.epoch)


def _out_of_memory(facts: Any) -> OutOfMemory:
    tried = [
        ("waiting for other streams", facts.stream_waits + facts.host_waits),
        ("memory that PyTorch caches", facts.caches),
        ("Python's garbage", facts.garbage),
    ]
    return OutOfMemory(
        facts.gpu,
        facts.requested,
        facts.site,
        _VERDICTS[facts.verdict],
        facts.allocated,
        facts.awaiting,
        facts.reserved,
        facts.native_reserved,
        facts.limit,
        facts.device_free,
        facts.device_total,
        facts.outside,
        facts.largest_free,
        facts.unusable,
        facts.missing,
        _decode(facts.limit_name),
        tried,
        _decode(facts.host),
        facts.host_own,
    )


def _code_owners(beginnings: dict[str, str]) -> bytes:
    """As bindings/c_api/c_api.h describes them."""
    letters = {users_code.USERS: "u", users_code.USERS_FLAT: "f"}
    lines = [letters.get(owner, "n") + text for text, owner in beginnings.items() if "\n" not in text]
    return "\n".join(lines).encode(errors="surrogateescape")
