"""What a step is, what it has to say, and the steps of ``frugal-alloc doctor --gpu``.

What it says, checks, figures and details, goes to a file as it is said: a process that the GPU ends leaves what it had
said by then. On the simulated GPU kernels compute nothing and time is not the driver's; so a check says what it needs,
and one that needs values or time is "not shown here" there, whatever came out, as is every figure. No step decides this
for itself. ``tools/gpu_check`` has more steps, in tests/hardware.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..._common import whole_files

FILE = "report.json"
DRIVER_COSTS = "driver costs"
# Of its limit a step plans to leave this part, or so many seconds: who starts slowly must not be ended for it.
_KEPT_PART, _KEPT_SECONDS = 0.2, 10.0

PASSED = "passed"
FAILED = "failed"
#: It needs values or real time, and this is the simulated GPU.
NOT_SHOWN = "not shown here"
#: The device, the driver or the torch does not offer it; said with which.
SKIPPED = "skipped"
#: Software that does not suit, or memory that others hold, kept us from asking: the GPU may be well or not.
UNKNOWN = "unknown"
OUTCOMES = (PASSED, FAILED, NOT_SHOWN, SKIPPED, UNKNOWN)


@dataclasses.dataclass(frozen=True)
class Step:
    """A module with ``run(report: StepReport) -> None``, which is carried out in a process of its own."""

    name: str
    #: The probe of the plan that it belongs to: "P1".
    probe: str
    #: Its share of the part's time, in seconds; what those before it leave over is added.
    seconds: int
    #: What it answers, in one line.
    question: str
    part: str = "facts"
    #: Where its run() is: the package.
    package: str = "frugal_alloc._command.doctor"
    #: It is about memory that is mapped: left out on GPUs that cannot.
    needs_virtual_memory: bool = False
    #: It takes what is left, which may be nothing: that it was not reached is then no failure.
    takes_the_rest: bool = False


_COSTS = "what each call of the driver takes, for how many handles, and what it holds up"
_ALIASING = "whether memory that is seen at two addresses is one memory, in the order of the work"
_LIFETIMES = "what destroyed streams, green contexts and a missing record_stream do with each allocator"
#: The whole takes two minutes at most.
DOCTORS = (
    Step("driver_costs", "P1", 30, _COSTS, needs_virtual_memory=True),
    Step("aliasing", "P2", 30, _ALIASING, needs_virtual_memory=True),
    Step("lifetimes", "P5", 60, _LIFETIMES),
)


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

    is_unsupported = False
    is_out_of_memory = False


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
            self._say("checks", name=name, outcome=PASSED if good else FAILED, said=said)

    def skip(self, name: str, why: str) -> None:
        self._say("checks", name=name, outcome=SKIPPED, said=why)

    def not_shown(self, name: str, why: str) -> None:
        self._say("checks", name=name, outcome=NOT_SHOWN, said=why)

    def unknown(self, name: str, why: str) -> None:
        self._say("checks", name=name, outcome=UNKNOWN, said=why)

    def overrun(self, name: str) -> None:
        """What is not done in its time has failed, but in a run that was asked to be short it is skipped."""
        if self.share < 1:
            self.skip(name, "not done in the time of a shortened run")
        else:
            self.check(name, False, "not done in its time")

    def is_about_us(self, error: Exception) -> bool:
        """Whether the error says nothing of the GPU: software does not suit, or others have left us no memory."""
        no_memory_left = getattr(error, "is_out_of_memory", False) and not self.fills_the_device
        return isinstance(error, (CannotTell, ImportError)) or no_memory_left

    def figure(self, name: str, value: float, unit: str, said: str = "") -> None:
        """A figure for the table. On the simulated GPU its value is not written down."""
        if self.simulated:
            self._say("figures", name=name, value=None, unit=unit, said=NOT_SHOWN)
        else:
            self._say("figures", name=name, value=value, unit=unit, said=said)

    def detail(self, name: str, **values: Any) -> None:
        """Measurements for the file alone. Left out on the simulated GPU."""
        if not self.simulated:
            self._say("details", name=name, **values)

    def driver_costs(self, microseconds: dict[str, float]) -> None:
        """By the names of allocator/port/driver_cost_table.h; on the simulated GPU they are its model's."""
        self._say("details", name=DRIVER_COSTS, measured=not self.simulated, microseconds=microseconds)

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A StepFailed in the block, such as a driver's error, is one failed check, and the step goes on.

        What the simulated GPU does not have is not shown, and what says nothing of the GPU is unknown.
        """
        try:
            yield
        except StepFailed as error:
            if self.simulated and error.is_unsupported:
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
    whole_files.write(str(path), json.dumps(document, indent=1).encode() + b"\n")
