"""What a process answers, brought into form: the text is from another process, and is trusted in nothing."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from .._messages import on_one_line
from .._report.headline import KIND_NAMES, OOM_NAMES

SCHEMA = "frugal_alloc.live"
VERSION = 1

_MOST_NUMBER = 1 << 63
_MOST_TEXT = 2000
_MOST_ROWS = 1024


class BadAnswer(ValueError):
    """It is no answer of a process that publishes; the message is one line."""


class Gpu(NamedTuple):
    """One GPU of a process; sizes in bytes."""

    gpu: int  # as the process numbers it
    name: str
    uuid: str
    total_bytes: int | None
    free_bytes: int | None
    limit_bytes: int
    in_use_bytes: int
    held_bytes: int
    waste_bytes: int
    peak_in_use_bytes: int
    stitches: int
    out_of_memory_errors: int
    last_out_of_memory: str | None


class Verdict(NamedTuple):
    """What leaks or grows."""

    kind: str
    gpu: int
    bytes_per_epoch: float
    text: str


class Answer(NamedTuple):
    """What a process tells of itself."""

    age_seconds: float
    command: tuple[str, ...]
    simulated: bool
    node: str
    tracking: bool
    epochs: int
    gpus: tuple[Gpu, ...]
    verdicts: tuple[Verdict, ...]


def parse(text: bytes) -> Answer:
    """The answer in a line of JSON.

    Raises:
        BadAnswer: it is none, or of a version that is not known.
    """
    try:
        value = json.loads(text.decode(), parse_int=_parse_int)
    except (ValueError, RecursionError):
        raise BadAnswer("its answer is no JSON") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise BadAnswer("its answer is not frugal_alloc's")
    if value.get("version") != VERSION:
        raise BadAnswer("it answers as another version of frugal_alloc does: use the frugal-alloc of its environment")
    return Answer(
        _number(value, "age_seconds"),
        tuple(_line(one) for one in _rows(value, "command")),
        _flag(value, "simulated"),
        _text(value, "node"),
        _flag(value, "tracking"),
        _size(value, "epochs"),
        tuple(_gpu(row) for row in _rows(value, "gpus")),
        tuple(_verdict(row) for row in _rows(value, "verdicts")),
    )


def _parse_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("no figure has so many digits")
    return int(digits)


def _gpu(row: Any) -> Gpu:
    verdict = row.get("last_out_of_memory") if isinstance(row, dict) else None
    if verdict is not None and verdict not in OOM_NAMES:
        raise BadAnswer("its answer has a verdict that is none")
    return Gpu(
        _size(row, "gpu"),
        _text(row, "name"),
        _text(row, "uuid"),
        _size(row, "total_bytes") if _of(row, "total_bytes") is not None else None,
        _size(row, "free_bytes") if _of(row, "free_bytes") is not None else None,
        _size(row, "limit_bytes"),
        _size(row, "in_use_bytes"),
        _size(row, "held_bytes"),
        _size(row, "waste_bytes"),
        _size(row, "peak_in_use_bytes"),
        _size(row, "stitches"),
        _size(row, "out_of_memory_errors"),
        verdict,
    )


def _verdict(row: Any) -> Verdict:
    if (kind := _text(row, "kind")) not in KIND_NAMES:
        raise BadAnswer("its answer has a verdict that is none")
    return Verdict(kind, _size(row, "gpu"), _number(row, "bytes_per_epoch"), _text(row, "text"))


def _of(row: Any, key: str) -> Any:
    if not isinstance(row, dict) or key not in row:
        raise BadAnswer(f"its answer has no {key}")
    return row[key]


def _number(row: Any, key: str) -> float:
    value = _of(row, key)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < _MOST_NUMBER:
        raise BadAnswer(f"its answer's {key} is no figure")
    return value


def _size(row: Any, key: str) -> int:
    if not isinstance(value := _number(row, key), int):
        raise BadAnswer(f"its answer's {key} is no whole number")
    return value


def _flag(row: Any, key: str) -> bool:
    if not isinstance(value := _of(row, key), bool):
        raise BadAnswer(f"its answer's {key} is neither true nor false")
    return value


def _rows(row: Any, key: str) -> list[Any]:
    if not isinstance(value := _of(row, key), list) or len(value) > _MOST_ROWS:
        raise BadAnswer(f"its answer's {key} is no list")
    return value


def _text(row: Any, key: str) -> str:
    return _line(_of(row, key))


def _line(value: Any) -> str:
    """The text with nothing in it that steers a terminal, or that makes it read in another order."""
    if not isinstance(value, str):
        raise BadAnswer("its answer has something in the place of a text")
    return on_one_line(value[:_MOST_TEXT])
