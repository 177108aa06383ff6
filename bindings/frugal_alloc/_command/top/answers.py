"""What a process answers, brought into form: the text is from another process, and is trusted in nothing."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

from ..._common import shapes
from ..._common.messages import on_one_line
from ..._report.headline import KIND_NAMES, OOM_NAMES

SCHEMA = "frugal_alloc.live"
VERSION = 1

_MOST_TEXT = 2000
_MOST_ROWS = shapes.at_most(1024)

_Figure = Annotated[float, shapes.between(0)]
_Size = Annotated[int, shapes.between(0)]
# With nothing in it that steers a terminal, or that makes it read in another order.
_Text = Annotated[str, lambda text: on_one_line(text[:_MOST_TEXT])]


class BadAnswer(ValueError):
    """It is no answer of a process that publishes; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU of a process; sizes in bytes."""

    gpu: _Size  # as the process numbers it
    name: _Text
    uuid: _Text
    total_bytes: _Size | None
    free_bytes: _Size | None
    limit_bytes: _Size
    in_use_bytes: _Size
    held_bytes: _Size
    waste_bytes: _Size
    peak_in_use_bytes: _Size
    stitches: _Size
    out_of_memory_errors: _Size
    last_out_of_memory: Annotated[str, shapes.among(OOM_NAMES)] | None = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What leaks or grows."""

    kind: Annotated[str, shapes.among(KIND_NAMES)]
    gpu: _Size
    bytes_per_epoch: _Figure
    text: _Text


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a process tells of itself."""

    age_seconds: _Figure
    command: Annotated[tuple[_Text, ...], _MOST_ROWS]
    simulated: bool
    node: _Text
    tracking: bool
    epochs: _Size
    gpus: Annotated[tuple[Gpu, ...], _MOST_ROWS]
    verdicts: Annotated[tuple[Verdict, ...], _MOST_ROWS]


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
    try:
        return shapes.read(Answer, value)
    except shapes.Misshapen as error:
        raise BadAnswer(f"its answer is damaged: {error}") from None


def _parse_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("no figure has so many digits")
    return int(digits)
