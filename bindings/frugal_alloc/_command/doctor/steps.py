"""What a step is, and those of ``frugal-alloc doctor --gpu``: a module with ``run(report: StepReport) -> None``.

``step_report`` says what it may say. ``tools/gpu_check`` has more of them, in tests/hardware.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Step:
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


#: The whole takes two minutes at most.
DOCTORS = (
    Step(
        "driver_costs",
        "P1",
        30,
        "what each call of the driver takes, for how many handles, and what it holds up",
        needs_virtual_memory=True,
    ),
    Step(
        "aliasing",
        "P2",
        30,
        "whether memory that is seen at two addresses is one memory, in the order of the work",
        needs_virtual_memory=True,
    ),
    Step(
        "lifetimes",
        "P5",
        60,
        "what destroyed streams, green contexts and a missing record_stream do with each allocator",
    ),
)
