"""What a step has to say: checks, figures, and what could not be shown, written to a file as they are said.

A process that the GPU ends leaves what it had said by then. On the simulated GPU kernels compute nothing and time is
not the driver's; so a check says what it needs, and one that needs values or time is "not shown here" there, whatever
came out, as is every figure. No step decides this for itself.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE = "report.json"
DRIVER_COSTS = "driver costs"
# Of its limit a step plans to leave this part, or so many seconds: who starts slowly must not be ended for it.
_KEPT_PART, _KEPT_SECONDS = 0.2, 10.0


class Outcome(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    #: It needs values or real time, and this is the simulated GPU.
    NOT_SHOWN = "not shown here"
    #: The device, the driver or the torch does not offer it; said with which.
    SKIPPED = "skipped"
    #: Software that does not suit, or memory that others hold, kept us from asking: the GPU may be well or not.
    UNKNOWN = "unknown"


class Needs(enum.Enum):
    """What makes a check's answer an answer."""

    #: Statuses of calls, which the simulated GPU has as a real one does.
    CALLS = "calls"
    #: What kernels compute, or faults of running work.
    VALUES = "values"
    #: How long things take.
    TIME = "time"
    #: What the driver takes for itself, and what it does about handles that are no more.
    DRIVER = "a real driver"


class StepFailed(Exception):
    """The step cannot go on; the message, one line, says why."""


class CannotTell(StepFailed):
    """The software that a question needs is not there or does not suit: nothing is known of the GPU."""


@dataclasses.dataclass
class StepReport:
    """One step's, in its process; not thread-safe.

    Attributes:
        folder: the step's own, to write what it likes into; also its working directory.
        seconds: how long it may take before it is ended.
        share: of the time that it has in a full run: rounds and sizes shrink by it.
        simulated: whether this process is on the simulated GPU.
        fills_the_device: whether it may take the device's last page.
    """

    folder: Path
    seconds: float
    share: float
    simulated: bool
    fills_the_device: bool = True

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._said: dict[str, list[dict[str, Any]]] = {"checks": [], "figures": [], "details": []}

    # --- Time.

    def seconds_left(self) -> float:
        """Until it should have ended by itself."""
        kept = min(self.seconds * _KEPT_PART, _KEPT_SECONDS)
        return self.seconds - kept - (time.monotonic() - self._began)

    def rounds(self, full: int, least: int = 1) -> int:
        """How many of the rounds of a full run; on the simulated GPU, where more would show nothing, few."""
        share = min(self.share, 1.0) * (0.01 if self.simulated else 1.0)
        return max(least, int(full * share))

    # --- What it found.

    def check(self, name: str, good: bool, said: str, needs: Needs = Needs.CALLS) -> None:
        """`said`: what was found, in a line, good or bad."""
        if self.simulated and needs is not Needs.CALLS:
            self.not_shown(name, f"needs {needs.value}, and this is the simulated GPU")
        else:
            self._say("checks", name=name, outcome=(Outcome.PASSED if good else Outcome.FAILED).value, said=said)

    def skip(self, name: str, why: str) -> None:
        self._say("checks", name=name, outcome=Outcome.SKIPPED.value, said=why)

    def not_shown(self, name: str, why: str) -> None:
        self._say("checks", name=name, outcome=Outcome.NOT_SHOWN.value, said=why)

    def unknown(self, name: str, why: str) -> None:
        self._say("checks", name=name, outcome=Outcome.UNKNOWN.value, said=why)

    def is_about_us(self, error: Exception) -> bool:
        """Whether the error says nothing of the GPU: software does not suit, or others have left us no memory."""
        no_memory_left = getattr(error, "is_out_of_memory", False) and not self.fills_the_device
        return isinstance(error, (CannotTell, ImportError)) or no_memory_left

    def figure(self, name: str, value: float, unit: str, said: str = "") -> None:
        """A figure for the table. On the simulated GPU its value is not written down."""
        if self.simulated:
            self._say("figures", name=name, value=None, unit=unit, said=Outcome.NOT_SHOWN.value)
        else:
            self._say("figures", name=name, value=value, unit=unit, said=said)

    def detail(self, name: str, **values: Any) -> None:
        """Measurements for the file alone. Left out on the simulated GPU."""
        if not self.simulated:
            self._say("details", name=name, **values)

    def driver_costs(self, microseconds: dict[str, float]) -> None:
        """By the names of allocator/port/driver_cost_table.h; on the simulated GPU they are its model's."""
        self._say("details", name=DRIVER_COSTS, measured=not self.simulated, microseconds=microseconds)

    @contextmanager
    def part(self, name: str, *kinds: type[Exception]) -> Iterator[None]:
        """What goes wrong in the block, of these kinds, is one failed check, and the step goes on.

        What the simulated GPU does not have is not shown, and what says nothing of the GPU is unknown.
        """
        try:
            yield
        except (StepFailed, *kinds) as error:
            if self.simulated and getattr(error, "is_unsupported", False):
                self.not_shown(name, f"the simulated GPU has no {error.call}")  # type: ignore[attr-defined]
            elif self.is_about_us(error):
                self.unknown(name, one_line(error))
            else:
                self.check(name, False, one_line(error))

    def _say(self, kind: str, **entry: Any) -> None:
        self._said[kind].append(entry)
        write_json(self.folder / FILE, self._said)


def one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def write_json(path: Path, document: object) -> None:
    """Whoever reads the file finds the old document or the new one, whole."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(document, indent=1) + "\n")
    os.replace(beside, path)
