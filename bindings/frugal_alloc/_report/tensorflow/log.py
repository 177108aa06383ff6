"""Logs of TensorFlow programs: the dumps of the BFC allocator in them, and the steps and tracebacks around them; and
which other artefacts of its are told apart."""

from __future__ import annotations

import re
from typing import Any

from .. import schema
from ..flame import is_library
from . import verdict
from .verdict import Dump

PROFILE_IS_NOT_READ = (
    "it is a profile of TensorFlow, and those are not read: open it in TensorBoard, or print the step and "
    "tf.config.experimental.get_memory_info('GPU:0') with each, and read the log"
)
# NAME.xplane.pb begins with a plane and its length, a plane with its number or its name; text has no such characters.
_XPLANE = re.compile(rb"\n[\x80-\xff]{0,9}[\x00-\x7f][\x08\x12]")

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# Of a log that never ends: the chunks of a dump, and dumps.
_MOST_CHUNKS = 500_000
_MOST_DUMPS = 2_000
_MOST_FRAMES = 100

_AMOUNT = r"([\d.]{1,20}) ?(B|KiB|MiB|GiB|TiB)?\b"
_REQUEST = re.compile(rf"Allocator \(([^()]{{1,100}})\) ran out of memory trying to allocate {_AMOUNT}")
_ROUNDED = re.compile(r"\(rounded to (\d{1,19})\)")
_REQUESTING_OP = re.compile(r"requested by op ([^\s,]{1,300})")
_HEADING = re.compile(r"BFCAllocator dump for (\S{1,100})")
_FIRST_BIN = re.compile(r"Bin \(256\):\s")
_REGION = re.compile(r"Next region of size (\d{1,19})")
# "Chunk at 0x..." until TensorFlow 1.12, "InUse at ..." since.
_CHUNK = re.compile(r"\b(InUse|Chunk|Free ?) at (?:0x)?([0-9a-f]{1,16}) of size (\d{1,19})(?: by op (\S{1,300}))?")
_STATISTIC = re.compile(rf"^\s*(Limit|InUse|MaxInUse|NumAllocs):\s+{_AMOUNT}")
_STEP = re.compile(r"\b(?:global[ _])?step\s{0,4}[:=#]?\s{0,4}(\d{1,12})\b", re.IGNORECASE)
_KERAS_EPOCH = re.compile(r"^Epoch (\d{1,9})/\d{1,9}\s*$")
_KERAS_STEP = re.compile(r"^\s*(\d{1,9})/(\d{1,9}) (?:\[|━|\x1b)")
_FRAME = re.compile(r'^\s*File "([^"]{1,1000})", line (\d{1,9}), in (.{1,300})$')
# What tf.config.experimental.get_memory_info() returns, printed.
_MEMORY_INFO = re.compile(r"'current': (\d{1,18}), 'peak': (\d{1,18})\}")
_TENSOR = re.compile(r"OOM when allocating tensor with shape\s?(\[[^\]]{0,200}\]) and type (\w{1,40})")


def is_profile(content: Any) -> bool:
    """Whether it is what TensorFlow's profiler writes: the bytes of a file, or TensorBoard's "memory_profile"."""
    if isinstance(content, bytes):
        return _XPLANE.match(content) is not None
    return isinstance(content, dict) and "memoryProfilePerAllocator" in content


class _Reader:
    """Goes through the lines of a log once."""

    def __init__(self) -> None:
        self.dumps: list[Dump] = []
        self.steps: list[int] = []
        self.frames: list[dict[str, Any]] = []
        # Of a step the bytes in use, and the most that were.
        self.memory: dict[int, tuple[int, int]] = {}
        self._request: tuple[str, int, str] = ("", 0, "")
        self._chunks = 0
        self._keras_epoch = 0
        self._code_of: dict[str, Any] | None = None

    def take(self, line: str) -> None:
        line = line[:2000]
        if self._code_of is not None:
            if not line.lstrip().startswith(("File ", "~", "^")):
                self._code_of["code"] = line.strip()
            self._code_of = None
        if " at " in line and (chunk := _CHUNK.search(line)):
            self._take_chunk(chunk)
        elif "ran out of memory" in line and (request := _REQUEST.search(line)):
            self._take_request(line, request)
        elif "Bin (256)" in line and _FIRST_BIN.search(line):
            self._begin()
        elif "dump for" in line and (heading := _HEADING.search(line)):
            self._request = (heading[1], *self._request[1:])
        elif "Next region" in line and (region := _REGION.search(line)):
            if self.dumps:
                self.dumps[-1].regions.append((int(region[1]), []))
        elif statistic := _STATISTIC.match(line):
            self._take_statistic(statistic)
        elif frame := _FRAME.match(line):
            self._take_frame(frame)
        elif "Traceback (most recent call last)" in line:
            self.frames.clear()
        elif self.dumps and "OOM when allocating" in line and (tensor := _TENSOR.search(line)):
            self.dumps[-1].tensor = f"{tensor[1]} {tensor[2]}"
        else:
            self._take_step(line)
            if "'current'" in line and self.steps and (info := _MEMORY_INFO.search(line)):
                self.memory[self.steps[-1]] = (int(info[1]), int(info[2]))

    def _take_request(self, line: str, found: re.Match[str]) -> None:
        rounded, op = _ROUNDED.search(line), _REQUESTING_OP.search(line)
        self._request = (found[1], int(rounded[1]) if rounded else _amount(found[2], found[3]), op[1] if op else "")

    def _begin(self) -> None:
        allocator, requested, op = self._request
        if len(self.dumps) >= _MOST_DUMPS:
            del self.dumps[1]
        # The chunks of one dump are a picture; of those before it their sizes are enough.
        for dump in self.dumps[-1:]:
            dump.regions = [(dump.pool_bytes, [(0, size, False) for size in dump.free_chunks])]
        self._chunks = 0
        self.dumps.append(Dump(allocator, self.steps[-1] if self.steps else None, requested, op))

    def _take_chunk(self, found: re.Match[str]) -> None:
        self._chunks += 1
        if not self.dumps or self._chunks > _MOST_CHUNKS:
            return
        dump, size, in_use = self.dumps[-1], int(found[3]), not found[1].startswith("Free")
        if in_use:
            dump.held[size, found[4] or ""] += 1
        if not dump.regions:
            dump.regions.append((0, []))
        dump.regions[-1][1].append((int(found[2], 16), size, in_use))

    def _take_statistic(self, found: re.Match[str]) -> None:
        field = {"Limit": "limit_bytes", "InUse": "in_use_bytes", "MaxInUse": "peak_bytes"}.get(found[1])
        if self.dumps and field:
            setattr(self.dumps[-1], field, _amount(found[2], found[3]))

    def _take_frame(self, found: re.Match[str]) -> None:
        self._code_of = {"file": found[1], "line": int(found[2]), "function": found[3], "code": ""}
        self.frames.append(self._code_of)
        del self.frames[: -2 * _MOST_FRAMES]

    def _take_step(self, line: str) -> None:
        if epoch := _KERAS_EPOCH.match(line):
            self._keras_epoch = int(epoch[1]) - 1
        elif batch := _KERAS_STEP.match(line):
            self._note_step(max(self._keras_epoch, 0) * int(batch[2]) + int(batch[1]))
        elif "tep" in line.lower() and (step := _STEP.search(line)):
            self._note_step(int(step[1]))

    def _note_step(self, step: int) -> None:
        # A run that starts again counts from the start again.
        if not self.steps or step != self.steps[-1]:
            self.steps.append(step)


def _amount(number: str, unit: str | None) -> int:
    try:
        return int(float(number) * _UNITS[unit or "B"])
    except (ValueError, OverflowError):
        return 0


def from_log(text: str, name: str) -> dict[str, Any]:
    """The report of a log in which the BFC allocator has dumped its state, once or several times.

    Raises:
        BadDocument: there is no such dump in it.
    """
    reader = _Reader()
    # A progress bar goes back to the start of its line.
    for line in re.split(r"[\r\n]+", text):
        reader.take(line)
    dumps = [dump for dump in reader.dumps if dump.held or dump.in_use_bytes]
    if not dumps and not reader.memory:
        raise schema.BadDocument(
            "it is neither a report of frugal_alloc nor a TensorFlow log with a dump of the BFC allocator"
        )
    for dump in dumps:
        held = sum(size * count for (size, _), count in dump.held.items())
        # The statistics are rounded to 0.01 of their unit; the chunks are exact.
        dump.in_use_bytes = held or dump.in_use_bytes
    steps = len(set(reader.steps))
    report = _empty_report(name, steps)
    report["frames"] = list(reversed(reader.frames[-_MOST_FRAMES:]))
    own = [number for number, frame in enumerate(report["frames"]) if not is_library(frame["file"])]
    verdict.judge(report, dumps, steps, reader.memory, own[0] if own else None)
    return report


def _empty_report(name: str, steps: int) -> dict[str, Any]:
    """A report of a TensorFlow run, in which steps stand for epochs."""
    return {
        "schema": schema.SCHEMA,
        "version": schema.VERSION,
        "run": {"command": [name]},
        "epochs": {"ended": steps, "found_by": "steps" if steps else "none", "steps": steps, "steps_per_epoch": 1.0},
        "gpus": [],
        "timeline": {"points": []},
        "notes": ["Read from what TensorFlow wrote; steps count as epochs."],
    }
