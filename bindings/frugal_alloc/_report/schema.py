"""The shape of a report document: what a reader may rely on, checked and brought into form in one place.

docs/reference/report.md describes the document for people. Keys that are not known are left as they are: a newer minor
revision may add some.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from .._common import shapes
from .._tracking import materiality
from .._tracking.materiality import MOST_CONFIDENCE
from .diagnoses import DIAGNOSES
from .headline import KIND_NAMES

SCHEMA = "frugal_alloc.report"
VERSION = 1

BLOCK_STATES = ("allocated", "awaiting", "free")
POOLS = ("graphs", "pools", "rest")

# Far more than any message or line of code needs, and nothing that a page could choke on.
_MOST_CHARACTERS = 20_000
_MOST_CHARACTERS_OF_LINE = 1_000
_MOST_COUNT = 1 << 16
# Control characters, which would steer a terminal; and those that make text read in another order than it is written.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]")


class BadDocument(ValueError):
    """It is not a report that can be shown; the message is one line that says what is wrong with it."""


def conform(document: Any) -> dict[str, Any]:
    """The document with every key of its version in place, of the right type, and with printable text.

    Args:
        document: What was read; it is not changed.

    Raises:
        BadDocument: it is not a report, its version is newer, or a part of it has the wrong form.
    """
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BadDocument("it is not a report of frugal_alloc")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadDocument("it does not say which version of a report it is")
    if version > VERSION:
        raise BadDocument(f"it is of version {version}, and this frugal_alloc knows {VERSION}; install a newer one")
    try:
        formed = shapes.read(_Report, document, plain=True)
    except shapes.Misshapen as error:
        raise BadDocument(str(error)) from None
    _check_references(formed)
    for of_process in (formed, *formed["ranks"]):
        _judge_materiality(of_process)
    return formed


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text[:_MOST_CHARACTERS])


def _on_one_line(text: str) -> str:
    return re.sub(r"[\n\t]", " ", _printable(text)[:_MOST_CHARACTERS_OF_LINE])


_Line = Annotated[str, _on_one_line]
_Confidence = Annotated[float, lambda number: min(number, MOST_CONFIDENCE)]
_Size = Annotated[int, shapes.between(0)]
# A number of a GPU or rank: readers go through all up to it.
_Count = Annotated[int, shapes.between(0, _MOST_COUNT)]


class _Object:
    """Each kind of it is a dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class _Place(_Object):
    file: _Line | None = None
    line: int | None = None


class _Made(_Place):
    """By a line of the program, on a GPU."""

    function: _Line = ""
    gpu: _Count = 0
    stack: tuple[_Size, ...] = ()


class _Run(_Object):
    command: tuple[_Line, ...] = ()
    pid: int | None = None
    rank: _Count | None = None
    world_size: _Count | None = None
    python: _Line = ""
    torch: _Line = ""
    frugal_alloc: _Line = ""
    started: _Line = ""
    written: _Line = ""
    simulated: bool = False


class _Epochs(_Object):
    ended: _Size = 0
    unwatched: _Size = 0
    unwatched_steps: _Size = 0
    found_by: _Line = "none"
    steps: _Size = 0
    steps_per_epoch: float | None = None
    seconds_per_epoch: float | None = None


class _DriverCall(_Object):
    call: _Line
    calls: _Size = 0
    total_ns: _Size = 0
    worst_ns: _Size = 0


class _Pool(_Object):
    pool: Annotated[str, shapes.among(POOLS)]
    allocated_bytes: _Size = 0
    reserved_bytes: _Size = 0


class _PrivatePool(_Place):
    captured: bool = False
    released: bool = False
    lost: bool = False
    reserved_bytes: _Size = 0
    allocated_bytes: _Size = 0
    kept_bytes: _Size = 0
    idle_bytes: _Size = 0


class _Asleep(_Object):
    tag: _Line = ""
    bytes: _Size = 0


class _Gpu(_Object):
    gpu: _Count
    name: _Line = ""
    driver_calls: tuple[_DriverCall, ...] = ()
    pools: tuple[_Pool, ...] = ()
    private_pools: tuple[_PrivatePool, ...] = ()
    total_bytes: _Size = 0
    limit_bytes: _Size = 0
    allocated_bytes: _Size = 0
    peak_allocated_bytes: _Size = 0
    reserved_bytes: _Size = 0
    peak_reserved_bytes: _Size = 0
    awaiting_bytes: _Size = 0
    native_reserved_bytes: _Size = 0
    native_allocated_bytes: _Size = 0
    peak_in_use_bytes: _Size = 0
    asleep: tuple[_Asleep, ...] = ()
    asleep_host_bytes: _Size = 0
    # What another program holds is a difference, which can come to be less than nothing.
    outside_bytes: int = 0


class _Holder(_Place):
    what: _Line
    through: _Line = ""
    tensors: _Size = 0
    bytes: _Size = 0
    share: float | None = None


class _TimeLeft(_Object):
    epochs: float
    steps: float | None = None
    seconds: float | None = None


class _Verdict(_Made):
    kind: Annotated[str, shapes.among(KIND_NAMES)]
    code: _Line = ""
    phase: _Line = ""
    node: _Line = ""
    bytes: _Size = 0
    bytes_now: int | None = None
    blocks_now: int | None = None
    blocks: _Size = 0
    bytes_per_epoch: float = 0
    bytes_per_step: float | None = None
    epochs: _Size = 0
    confidence: _Confidence = 0
    pattern: _Line = ""
    advice: _Line = ""
    held_by: tuple[_Holder, ...] = ()
    out_of_memory_in: _TimeLeft | None = None
    material: bool | None = None


class _Frame(_Object):
    file: _Line
    line: int
    function: _Line = ""
    code: _Line = ""


class _Site(_Made):
    phase: _Line = ""
    node: _Line = ""
    bytes: _Size = 0
    blocks: _Size = 0
    peak_bytes: _Size = 0


class _Timeline(_Object):
    phases: tuple[_Line, ...] = ()
    points: tuple[tuple[_Count, int, int, int, _Size, _Size, _Size], ...] = ()
    epoch_ends: tuple[tuple[int, int], ...] = ()


class _Segment(_Object):
    gpu: _Count
    address: _Size
    bytes: _Size
    stream: int = 0
    mapped: bool = True
    unusable_bytes: _Size = 0
    blocks: tuple[tuple[_Size, _Size, Annotated[str, shapes.among(BLOCK_STATES)], _Size | None], ...] = ()


class _Tried(_Object):
    what: _Line
    gained_bytes: _Size = 0


class _Fragmentation(_Object):
    hard_bytes: _Size = 0
    soft_bytes: _Size = 0
    stream_bytes: _Size = 0


class _Advice(_Place):
    text: _Line
    bytes: _Size | None = None


class _OutOfMemory(_Made):
    verdict: Annotated[str, shapes.among(DIAGNOSES)]
    diagnosis: Annotated[str, shapes.among(DIAGNOSES)] | None = None
    requested_bytes: _Size = 0
    missing_bytes: int = 0
    code: _Line = ""
    message: Annotated[str, _printable] = ""
    step: int | None = None
    number: _Size = 1
    errors: _Size = 1
    went_on: bool = False
    caught: bool = False
    limit_name: _Line = ""
    host: _Line = ""
    host_own_bytes: _Size = 0
    allocated_bytes: _Size = 0
    asleep_bytes: _Size = 0
    awaiting_bytes: _Size = 0
    reserved_bytes: _Size = 0
    native_reserved_bytes: _Size = 0
    limit_bytes: _Size = 0
    device_free_bytes: _Size = 0
    device_total_bytes: _Size = 0
    outside_bytes: int = 0
    largest_free_bytes: _Size = 0
    unusable_bytes: _Size = 0
    kept_bytes: _Size = 0
    tried: tuple[_Tried, ...] = ()
    fragmentation: _Fragmentation | None = None
    advice: tuple[_Advice, ...] = ()


class _OneRank(_Object):
    run: _Run = _Run()
    epochs: _Epochs = _Epochs()
    gpus: tuple[_Gpu, ...] = ()
    verdicts: tuple[_Verdict, ...] = ()
    suppressed: _Size = 0
    frames: tuple[_Frame, ...] = ()
    sites: tuple[_Site, ...] = ()
    timeline: _Timeline = _Timeline()
    segments: tuple[_Segment, ...] = ()
    oom: _OutOfMemory | None = None
    notes: tuple[_Line, ...] = ()


class _Report(_OneRank):
    ranks: tuple[_OneRank, ...] = ()


def _check_references(document: dict[str, Any]) -> None:
    """Raises BadDocument where a number stands for a frame, a site or a phase that is not there."""
    frames, sites = len(document["frames"]), len(document["sites"])
    stacks = [row["stack"] for part in ("verdicts", "sites") for row in document[part]]
    stacks += [document["oom"]["stack"]] if document["oom"] else []
    if any(frame >= frames for stack in stacks for frame in stack):
        raise BadDocument(f"a stack names a frame, but there are only {frames}")
    if any(block[3] is not None and block[3] >= sites for row in document["segments"] for block in row["blocks"]):
        raise BadDocument(f"a block names a site, but there are only {sites}")
    phases = len(document["timeline"]["phases"])
    if any(not 0 <= point[3] < phases for point in document["timeline"]["points"]):
        raise BadDocument(f"a point of the timeline names a phase, but there are only {phases}")
    for rank in document["ranks"]:
        _check_references(rank)


def _judge_materiality(document: dict[str, Any]) -> None:
    """Says whether a verdict is material where the document does not: older reports, and what TensorFlow wrote."""
    verdicts = document["verdicts"]
    judged = materiality.of(verdicts, document["gpus"], document["epochs"]["seconds_per_epoch"])
    for verdict, is_material in zip(verdicts, judged, strict=True):
        if verdict["material"] is None:
            verdict["material"] = is_material
