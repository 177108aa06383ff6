"""What tests and processes took of the GPU's memory, and the file of it that a run is compared with.

The file is sorted, and has a line of a program on one line, so that changes of it are small.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from ..._common import recorded_files, shapes, whole_files
from ..._common.messages import Refused

VERSION = 1
#: What has figures.
TEST, FIXTURE, PROCESS = "test", "fixture", "process"
_KEY = "frugal_alloc_check"
_MOST_BYTES = 256 << 20


class Line(NamedTuple):
    """A line of the program, and bytes that it asked for."""

    file: str  # relative to the baseline's folder; of a library, from the library's name on
    function: str
    line: int
    text: str
    bytes: int
    #: The innermost line of Python, "torch/nn/modules/rnn.py forward", if that is another: a library may keep what the
    #: first of its callers has it make.
    through: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What stays as it is when lines are added above."""
        return self.file, self.function, self.text

    @property
    def maker(self) -> str:
        return self.through or f"{self.file} {self.function}"


@dataclasses.dataclass(frozen=True)
class Figures:
    """Bytes, over all GPUs, beyond those that were there before. None: not known, or not the same in each run."""

    #: The most that was in use at a time; and of that, without what was kept after the end.
    peak: int | None = None
    released: int | None = None
    #: The most of the GPU's memory that was taken at a time.
    gpu: int | None = None
    #: What the allocator held at the peak and had not handed out.
    waste: int | None = None
    #: Still in use after the end and a collection of garbage.
    leaked: int | None = None
    #: Calls of the driver, by kind.
    calls: Mapping[str, int] | None = None
    #: What the allocator held from before and had not handed out: so much less may have been taken.
    slack: int = 0
    #: What the peak consists of, and what leaked: the most first.
    lines: tuple[Line, ...] = ()
    leaks: tuple[Line, ...] = ()
    #: Who has most of what leaked, as in "tensor in list 'kept'"; "": nobody is known to.
    holder: str = ""

    def to_values(self) -> dict[str, Any]:
        """As JSON has it; what is 0, none or not known is left out."""
        values: dict[str, Any] = {
            name: getattr(self, name) for name in ("peak", "gpu", "waste", "leaked") if getattr(self, name) is not None
        }
        if self.released is not None and self.released != self.peak:
            values["released"] = self.released
        values |= {name: value for name in ("slack", "holder") if (value := getattr(self, name))}
        if self.calls is not None:
            values["calls"] = {kind: count for kind, count in sorted(self.calls.items()) if count}
        for name, lines in (("lines", self.lines), ("leaks", self.leaks)):
            if lines:
                values[name] = [list(line if line.through else line[:-1]) for line in lines]
        return values

    def with_released(self) -> Figures:
        """Those that were written: where they do not say what was released, it was all of the peak."""
        return self if self.released is not None else dataclasses.replace(self, released=self.peak)


#: Figures as to_values() has written them.
WrittenFigures = Annotated[Figures, Figures.with_released]


class BaselineError(Refused):
    """There is no such baseline, or it is none; the message is one line that says what to do."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What figures depend on beside the program."""

    #: The name of a model, which says more than its memory; None: it has that memory, and no name.
    gpu: str | None = dataclasses.field(default=None, kw_only=True)
    memory: int
    gpus: int
    values: str
    allocator: str


@dataclasses.dataclass(frozen=True)
class Baseline(Setting):
    """What the file says beside its version."""

    torch: str
    records: Mapping[str, WrittenFigures]

    @classmethod
    def of(cls, setting: Setting, torch: str, records: Mapping[str, Figures]) -> Baseline:
        return cls(**dataclasses.asdict(setting), torch=torch, records=records)

    @property
    def setting(self) -> Setting:
        return Setting(self.memory, self.gpus, self.values, self.allocator, gpu=self.gpu)


def read(path: str) -> Baseline:
    """
    Raises:
        BaselineError: it cannot be read.
    """
    if not os.path.lexists(path):
        raise BaselineError(f"there is no baseline {path}; make one by the same command with --update")
    try:
        values = json.loads(recorded_files.read_bytes(path, _MOST_BYTES))
        version = values.get(_KEY) if isinstance(values, dict) else None
        if not isinstance(version, int) or isinstance(version, bool):
            raise BaselineError(f"{path} is no baseline of frugal-alloc check; name another file")
        if version != VERSION:
            raise BaselineError(
                f"{path} is a baseline of version {version}, and this frugal-alloc reads version {VERSION}: "
                "make it anew with --update"
            )
        return shapes.read(Baseline, values)
    except recorded_files.UnreadableFile as error:
        raise BaselineError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path} is damaged ({error}); make it anew with --update") from None


def is_foreign(path: str) -> bool:
    """Whether something is there that is no baseline, nor was one before it was damaged."""
    if not os.path.lexists(path):
        return False
    try:
        with recorded_files.open_file(path) as file:
            start = file.read(4096)
    except (recorded_files.UnreadableFile, OSError):
        return True
    return bool(start.strip()) and _KEY.encode() not in start


def write(path: str, baseline: Baseline) -> None:
    """
    Raises:
        BaselineError: it cannot be written; an old one stays as it is.
    """
    try:
        whole_files.write(path, to_text(baseline).encode())
    except OSError as error:
        raise BaselineError(f"{path} cannot be written: {error.strerror}; name another file") from None


def to_text(baseline: Baseline) -> str:
    head = {_KEY: VERSION, **dataclasses.asdict(baseline.setting), "torch": baseline.torch}
    lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items() if value is not None]
    inside = ",\n".join(_record(name, record.to_values()) for name, record in sorted(baseline.records.items()))
    return "\n".join(["{", *lines, ' "records": {', *([inside] if inside else []), " }", "}", ""])


def _record(name: str, values: Mapping[str, Any]) -> str:
    fields = []
    for key, value in values.items():
        written = json.dumps(value)
        if isinstance(value, list):
            rows = ",\n".join(f"    {json.dumps(row)}" for row in value)
            written = f"[\n{rows}\n   ]"
        fields.append(f'   "{key}": {written}')
    return f"  {json.dumps(name)}: {{\n" + ",\n".join(fields) + "\n  }"


def renewed(old: Figures | None, new: Figures) -> Figures:
    """The new figures; the old where nothing but the numbers of lines differs."""
    return new if old is None or _without_numbers(old) != _without_numbers(new) else old


def _without_numbers(figures: Figures) -> dict[str, Any]:
    lines, leaks = (sorted(line._replace(line=0) for line in lines) for lines in (figures.lines, figures.leaks))
    return figures.to_values() | {"lines": lines, "leaks": leaks}
