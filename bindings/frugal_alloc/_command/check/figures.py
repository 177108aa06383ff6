"""What a test, or a process, took of the GPU's memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple


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

    def to_values(self) -> dict[str, Any]:
        """As JSON has it; what is 0, none or not known is left out."""
        values: dict[str, Any] = {
            name: getattr(self, name) for name in ("peak", "gpu", "waste", "leaked") if getattr(self, name) is not None
        }
        if self.released is not None and self.released != self.peak:
            values["released"] = self.released
        if self.slack:
            values["slack"] = self.slack
        if self.calls is not None:
            values["calls"] = {kind: count for kind, count in sorted(self.calls.items()) if count}
        for name, lines in (("lines", self.lines), ("leaks", self.leaks)):
            if lines:
                values[name] = [list(line if line.through else line[:-1]) for line in lines]
        return values

    def with_released(self) -> Figures:
        """Those that were written: where they do not say what was released, it was all of the peak."""
        return self if self.released is not None else dataclasses.replace(self, released=self.peak)
