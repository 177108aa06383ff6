"""The shape of a report document: what a reader may rely on, checked and brought into form in one place.

docs/reports.md describes the document for people. Keys that are not known are left as they are: a newer minor revision
may add some.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .._native import out_of_memory
from .._tracking import materiality
from .._tracking.causes import MOST_CONFIDENCE

SCHEMA = "frugal_alloc.report"
VERSION = 1

VERDICT_KINDS = ("leak", "suspect", "growing", "cycle", "outside")
BLOCK_STATES = ("allocated", "awaiting", "free")
POOLS = ("graphs", "pools", "rest")

# Far more than any message or line of code needs, and nothing that a page could choke on.
_MOST_CHARACTERS = 20_000
_MOST_CHARACTERS_OF_LINE = 1_000
_MOST_NUMBER = 1 << 63
_MOST_COUNT = 1 << 16
# Control characters, which would steer a terminal; and those that make text read in another order than it is written.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]")

Check = Callable[[Any, str], Any]


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
    formed = _REPORT(document, "")
    _check_references(formed)
    for one in (formed, *formed["ranks"]):
        _judge_materiality(one)
    return formed


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise BadDocument(f"{where} is not a text")
    return _UNPRINTABLE.sub("\ufffd", value[:_MOST_CHARACTERS])


def _line(value: Any, where: str) -> str:
    return re.sub(r"[\n\t]", " ", _text(value, where)[:_MOST_CHARACTERS_OF_LINE])


def _integer(value: Any, where: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _MOST_NUMBER:
        raise BadDocument(f"{where} is not a whole number")
    return value


def _size(value: Any, where: str) -> int:
    if (size := _integer(value, where)) < 0:
        raise BadDocument(f"{where} is below zero")
    return size


def _count(value: Any, where: str) -> int:
    """A number of a GPU or rank: readers go through all up to it."""
    if (count := _size(value, where)) > _MOST_COUNT:
        raise BadDocument(f"{where} is larger than anything that there is")
    return count


def _number(value: Any, where: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < _MOST_NUMBER:
        raise BadDocument(f"{where} is not a number")
    return value


def _confidence(value: Any, where: str) -> float:
    return min(_number(value, where), MOST_CONFIDENCE)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise BadDocument(f"{where} is neither true nor false")
    return value


def _optional(check: Check) -> Check:
    return lambda value, where: None if value is None else check(value, where)


def _one_of(names: tuple[str, ...]) -> Check:
    def check(value: Any, where: str) -> str:
        if value not in names:
            raise BadDocument(f"{where} is none of {', '.join(names)}")
        return value

    return check


def _list(check: Check) -> Check:
    def check_all(value: Any, where: str) -> list:
        if not isinstance(value, list):
            raise BadDocument(f"{where} is not a list")
        return [check(one, f"{where}[{number}]") for number, one in enumerate(value)]

    return check_all


def _row(*checks: Check) -> Check:
    """A list of fixed length; a longer one has been added to by a newer revision."""

    def check_row(value: Any, where: str) -> list:
        if not isinstance(value, list) or len(value) < len(checks):
            raise BadDocument(f"{where} is not a list of {len(checks)} values")
        return [check(one, where) for check, one in zip(checks, value, strict=False)]

    return check_row


class _Object:
    """An object with these keys; one with a default may be missing, or null."""

    def __init__(self, required: dict[str, Check] | None = None, **optional: tuple[Check, Any]) -> None:
        self._required = required or {}
        self._optional = optional

    def __call__(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadDocument(f"{where or 'it'} is not an object")
        formed = dict(value)
        path = f"{where}." if where else ""
        for key, check in self._required.items():
            if key not in value:
                raise BadDocument(f"{path}{key} is missing")
            formed[key] = check(value[key], path + key)
        for key, (check, default) in self._optional.items():
            given = value.get(key)
            formed[key] = check(default if given is None else given, path + key)
        return formed


_maybe_line = (_optional(_line), None)
_maybe_integer = (_optional(_integer), None)
_maybe_count = (_optional(_count), None)
_maybe_number = (_optional(_number), None)
_no_line = (_line, "")
_zero = (_size, 0)
# Memory that more or less of can have come to be: what another program holds, for one, is a difference.
_difference = (_integer, 0)
_no_numbers = (_list(_size), [])
_place = {"file": _maybe_line, "line": _maybe_integer, "function": _no_line}

_RUN = _Object(
    command=(_list(_line), []),
    pid=_maybe_integer,
    rank=_maybe_count,
    world_size=_maybe_count,
    python=_no_line,
    torch=_no_line,
    frugal_alloc=_no_line,
    started=_no_line,
    written=_no_line,
    simulated=(_flag, False),
)
_EPOCHS = _Object(
    ended=_zero,
    unwatched=_zero,
    unwatched_steps=_zero,
    found_by=(_line, "none"),
    steps=_zero,
    steps_per_epoch=_maybe_number,
)
_DRIVER_CALL = _Object({"call": _line}, calls=_zero, total_ns=_zero, worst_ns=_zero)
_POOL = _Object({"pool": _one_of(POOLS)}, allocated_bytes=_zero, reserved_bytes=_zero)
_GPU = _Object(
    {"gpu": _count},
    name=_no_line,
    driver_calls=(_list(_DRIVER_CALL), []),
    pools=(_list(_POOL), []),
    **{
        key: _difference if key == "outside_bytes" else _zero
        for key in (
            "total_bytes",
            "limit_bytes",
            "allocated_bytes",
            "peak_allocated_bytes",
            "reserved_bytes",
            "peak_reserved_bytes",
            "awaiting_bytes",
            "native_reserved_bytes",
            "native_allocated_bytes",
            "peak_in_use_bytes",
            "outside_bytes",
        )
    },
)
_HOLDER = _Object(
    {"what": _line},
    through=_no_line,
    file=_maybe_line,
    line=_maybe_integer,
    tensors=_zero,
    bytes=_zero,
    share=_maybe_number,
)
_TIME_LEFT = _Object({"epochs": _number}, steps=_maybe_number)
_VERDICT = _Object(
    {"kind": _one_of(VERDICT_KINDS)},
    **_place,
    gpu=(_count, 0),
    code=_no_line,
    phase=_no_line,
    node=_no_line,
    bytes=_zero,
    bytes_now=_maybe_integer,
    blocks=_zero,
    bytes_per_epoch=(_number, 0),
    bytes_per_step=_maybe_number,
    epochs=_zero,
    confidence=(_confidence, 0),
    pattern=_no_line,
    advice=_no_line,
    held_by=(_list(_HOLDER), []),
    stack=_no_numbers,
    out_of_memory_in=(_optional(_TIME_LEFT), None),
    material=(_optional(_flag), None),
)
_FRAME = _Object({"file": _line, "line": _integer}, function=_no_line, code=_no_line)
_SITE = _Object(
    **_place,
    gpu=(_count, 0),
    phase=_no_line,
    node=_no_line,
    bytes=_zero,
    blocks=_zero,
    peak_bytes=_zero,
    stack=_no_numbers,
)
_TIMELINE = _Object(
    phases=(_list(_line), []),
    points=(_list(_row(_count, _integer, _integer, _integer, _size, _size, _size)), []),
    epoch_ends=(_list(_row(_integer, _integer)), []),
)
_SEGMENT = _Object(
    {"gpu": _count, "address": _size, "bytes": _size},
    stream=_difference,
    mapped=(_flag, True),
    unusable_bytes=_zero,
    blocks=(_list(_row(_size, _size, _one_of(BLOCK_STATES), _optional(_size))), []),
)
_OOM = _Object(
    {"verdict": _one_of(out_of_memory.VERDICTS)},
    **_place,
    gpu=(_count, 0),
    requested_bytes=_zero,
    missing_bytes=_difference,
    code=_no_line,
    stack=_no_numbers,
    message=(_text, ""),
    step=_maybe_integer,
    number=(_size, 1),
    errors=(_size, 1),
    went_on=(_flag, False),
    limit_name=_no_line,
    host=_no_line,
    host_own_bytes=_zero,
    allocated_bytes=_zero,
    awaiting_bytes=_zero,
    reserved_bytes=_zero,
    native_reserved_bytes=_zero,
    limit_bytes=_zero,
    device_free_bytes=_zero,
    device_total_bytes=_zero,
    outside_bytes=_difference,
    largest_free_bytes=_zero,
    unusable_bytes=_zero,
    tried=(_list(_Object({"what": _line}, gained_bytes=_zero)), []),
    fragmentation=(_optional(_Object(hard_bytes=_zero, soft_bytes=_zero, stream_bytes=_zero)), None),
    advice=(_list(_Object({"text": _line}, file=_maybe_line, line=_maybe_integer, bytes=(_optional(_size), None))), []),
)
_ONE_RANK = {
    "run": (_RUN, {}),
    "epochs": (_EPOCHS, {}),
    "gpus": (_list(_GPU), []),
    "verdicts": (_list(_VERDICT), []),
    "suppressed": _zero,
    "frames": (_list(_FRAME), []),
    "sites": (_list(_SITE), []),
    "timeline": (_TIMELINE, {}),
    "segments": (_list(_SEGMENT), []),
    "oom": (_optional(_OOM), None),
    "notes": (_list(_line), []),
}
_REPORT = _Object(**_ONE_RANK, ranks=(_list(_Object(**_ONE_RANK)), []))


def _check_references(document: dict[str, Any]) -> None:
    """Raises BadDocument where a number stands for a frame, a site or a phase that is not there."""
    frames, sites = len(document["frames"]), len(document["sites"])
    stacks = [one["stack"] for part in ("verdicts", "sites") for one in document[part]]
    stacks += [document["oom"]["stack"]] if document["oom"] else []
    if any(frame >= frames for stack in stacks for frame in stack):
        raise BadDocument(f"a stack names a frame, but there are only {frames}")
    if any(block[3] is not None and block[3] >= sites for one in document["segments"] for block in one["blocks"]):
        raise BadDocument(f"a block names a site, but there are only {sites}")
    phases = len(document["timeline"]["phases"])
    if any(not 0 <= point[3] < phases for point in document["timeline"]["points"]):
        raise BadDocument(f"a point of the timeline names a phase, but there are only {phases}")
    for rank in document["ranks"]:
        _check_references(rank)


def _judge_materiality(document: dict[str, Any]) -> None:
    """Says whether a verdict is material where the document does not: older reports, and what TensorFlow wrote."""
    verdicts = document["verdicts"]
    for verdict, is_material in zip(verdicts, materiality.of(verdicts, document["gpus"]), strict=True):
        if verdict["material"] is None:
            verdict["material"] = is_material
