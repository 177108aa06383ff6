"""What a probe of ``frugal-alloc doctor --gpu`` says, a line of JSON each, from a process of its own.

A process that the GPU ends leaves what it had said by then. On the simulated GPU kernels compute nothing and time is
not the driver's; so a check says what it needs, and one that needs more than calls is "not shown here" there, whatever
came out, as is every figure. No probe decides this for itself.

``python -m frugal_alloc._command.doctor.probe NAME SECONDS PARENT`` carries one out, and ends with the process PARENT.
Whatever it raises is said in one line on stderr, with exit status 1.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator

from .driver import CannotTell, DriverError, Gpu
from .machine import is_simulated

PASSED, FAILED = "passed", "failed"
#: It needs values or real time, and this is the simulated GPU.
NOT_SHOWN = "not shown here"
#: The device, the driver or the torch does not offer it; said with which.
SKIPPED = "skipped"
#: Software that does not suit, or memory that others hold, kept us from asking: the GPU may be well or not.
UNKNOWN = "unknown"
#: What makes a check's answer an answer: what kernels compute, how long things take, or what the driver keeps.
CALLS, VALUES, TIME, DRIVER = "calls", "values", "time", "a real driver"
#: Of its limit a probe plans to leave so many seconds: who starts slowly must not be ended for it.
_KEPT_SECONDS = 6.0
#: Of what is free, so much may be taken: whoever asks the doctor has other work on this GPU, or somebody else has.
_SHARE = 0.25
_PR_SET_PDEATHSIG = 1


class Report:
    """
    Attributes:
        simulated: whether this process is on the simulated GPU.
    """

    def __init__(self, seconds: float, simulated: bool) -> None:
        self.simulated = simulated
        self._end = time.monotonic() + max(seconds - _KEPT_SECONDS, seconds / 2)

    def seconds_left(self) -> float:
        """Until it should have ended by itself."""
        return self._end - time.monotonic()

    def rounds(self, full: int) -> int:
        """On the simulated GPU, where more would show nothing, few."""
        return max(2, full // 100) if self.simulated else full

    def most_bytes(self, gpu: Gpu, most: int) -> int:
        """`most`, or as much as is decent; on the simulated GPU, whose memory is this machine's, a little."""
        share = int(gpu.free_bytes() * _SHARE)
        return min(most, share, (64 << 20) if self.simulated else share)

    def check(self, name: str, good: bool, said: str, needs: str = CALLS) -> None:
        """`said`: what was found, in a line, good or bad."""
        if self.simulated and needs is not CALLS:
            self.say(name, NOT_SHOWN, f"needs {needs}, and this is the simulated GPU")
        else:
            self.say(name, PASSED if good else FAILED, said)

    def say(self, name: str, outcome: str, said: str) -> None:
        print(json.dumps({"name": name, "outcome": outcome, "said": said}), flush=True)

    def figure(self, name: str, value: float, unit: str) -> None:
        """On the simulated GPU its value is not written down."""
        print(json.dumps({"name": name, "value": None if self.simulated else value, "unit": unit}), flush=True)

    def driver_costs(self, microseconds: dict[str, float]) -> None:
        """By the names of allocator/port/driver_cost_table.h; on the simulated GPU they are its model's."""
        print(json.dumps({"microseconds": microseconds}), flush=True)

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A driver's error in the block is one failed check, and the probe goes on; what says nothing of the GPU is
        unknown: software does not suit, or others have left us no memory."""
        try:
            yield
        except (CannotTell, DriverError) as error:
            is_about_us = isinstance(error, CannotTell) or error.is_out_of_memory
            self.say(name, UNKNOWN if is_about_us else FAILED, one_line(error))


def one_line(error: BaseException | str) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def end_with_parent(parent: int) -> None:
    """Who is killed leaves nobody behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def main() -> int:
    name, seconds, parent = sys.argv[1:]
    end_with_parent(int(parent))
    # A fault on purpose would write the process's whole memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    report = Report(float(seconds), is_simulated())
    try:
        with report.part("all of it"):
            importlib.import_module(f"{__package__}.{name}").run(report)
    except ImportError as error:
        report.say("all of it", UNKNOWN, one_line(error))
    except Exception as error:
        print(f"{type(error).__name__}: {one_line(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
