"""The file that figures are compared with: sorted, a line of a program on one line, so that changes of it are small."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Annotated, Any

from ..._common import recorded_files, shapes, whole_files
from .figures import Figures, Line

VERSION = 1
_MOST_BYTES = 256 << 20


class BaselineError(Exception):
    """There is no such baseline, or it is none; the message is one line that says what to do."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What figures depend on beside the program."""

    memory: int
    gpus: int
    values: str
    allocator: str


@dataclasses.dataclass(frozen=True)
class Baseline(Setting):
    """What the file says beside its version."""

    torch: str
    records: Mapping[str, Annotated[Figures, Figures.with_released]]

    @classmethod
    def of(cls, setting: Setting, torch: str, records: Mapping[str, Figures]) -> Baseline:
        return cls(**dataclasses.asdict(setting), torch=torch, records=records)

    @property
    def setting(self) -> Setting:
        return Setting(self.memory, self.gpus, self.values, self.allocator)


def read(path: str) -> Baseline:
    """
    Raises:
        BaselineError: it cannot be read.
    """
    if not os.path.lexists(path):
        raise BaselineError(f"there is no baseline {path}; make one by the same command with --update")
    try:
        values = json.loads(recorded_files.read_bytes(path, _MOST_BYTES))
    except recorded_files.UnreadableFile as error:
        raise BaselineError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path} is damaged ({error}); make it anew with --update") from None
    version = values.get("frugal_alloc_check") if isinstance(values, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise BaselineError(f"{path} is no baseline of frugal-alloc check; name another file")
    if version != VERSION:
        raise BaselineError(
            f"{path} is a baseline of version {version}, and this frugal-alloc reads version {VERSION}: "
            "make it anew with --update"
        )
    try:
        return shapes.read(Baseline, values)
    except shapes.Misshapen as error:
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
    return bool(start.strip()) and b"frugal_alloc_check" not in start


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
    head = {"frugal_alloc_check": VERSION, **dataclasses.asdict(baseline.setting), "torch": baseline.torch}
    lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    records = [_record(name, record.to_values()) for name, record in sorted(baseline.records.items())]
    inside = ",\n".join(records)
    return "\n".join(["{", *lines, ' "records": {', *([inside] if inside else []), " }", "}", ""])


def _record(name: str, values: Mapping[str, Any]) -> str:
    fields = []
    for key, value in values.items():
        if isinstance(value, list):
            rows = ",\n".join(f"    {json.dumps(row)}" for row in value)
            fields.append(f'   "{key}": [\n{rows}\n   ]')
        else:
            fields.append(f'   "{key}": {json.dumps(value)}')
    return f"  {json.dumps(name)}: {{\n" + ",\n".join(fields) + "\n  }"


def renewed(old: Figures | None, new: Figures) -> Figures:
    """The new figures; the old where nothing but the numbers of lines differs."""
    if old is None or _without_numbers(old) != _without_numbers(new):
        return new
    return old


def _without_numbers(figures: Figures) -> Figures:
    def stripped(lines: tuple[Line, ...]) -> tuple[Line, ...]:
        return tuple(sorted(line._replace(line=0) for line in lines))

    calls = None if figures.calls is None else {kind: count for kind, count in figures.calls.items() if count}
    return dataclasses.replace(figures, lines=stripped(figures.lines), leaks=stripped(figures.leaks), calls=calls)
