"""The steps of the kit, in order of value within each part.

A step is added by its line here and a module with ``run(report: StepReport) -> None``; see ``step_report`` for what it
may say.
"""

from __future__ import annotations

import dataclasses

FACTS, TESTS, SPEED, LIMITS = "facts", "tests", "speed", "limits"
#: The most that a part takes, in seconds, whatever its steps do.
PARTS = {FACTS: 10 * 60, TESTS: 9 * 60, SPEED: 9 * 60, LIMITS: 2 * 60}
#: Parts that starve others on the machine: only by their names, with --alone.
BY_NAME_ONLY = (LIMITS,)


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    #: The probe of the plan that it belongs to: "P1".
    probe: str
    part: str
    #: What it answers, in one line.
    question: str
    #: Where its run() is.
    module: str
    #: Its share of the part's time, in seconds; what those before it leave over is added.
    seconds: int
    #: It takes what is left, which may be nothing: that it was not reached is then no failure.
    takes_the_rest: bool = False
    #: It is about memory that is mapped: left out on GPUs that cannot.
    needs_virtual_memory: bool = False


_OURS = "frugal_alloc._gpu_check."

STEPS = (
    Step(
        "driver_costs",
        "P1",
        FACTS,
        "what each call of the driver takes, for how many handles, and what it holds up",
        _OURS + "driver_costs",
        120,
        needs_virtual_memory=True,
    ),
    Step(
        "live_views",
        "P1",
        FACTS,
        "whether calls become slower with the number of views, and what views cost the host",
        _OURS + "live_views",
        60,
        needs_virtual_memory=True,
    ),
    Step(
        "mappings",
        "P2",
        FACTS,
        "what else the driver makes of handles: a part of one, several addresses, adjacent reservations",
        _OURS + "mappings",
        15,
        needs_virtual_memory=True,
    ),
    Step(
        "aliasing",
        "P2",
        FACTS,
        "whether memory that is seen at two addresses is one memory, in the order of the work",
        _OURS + "aliasing",
        60,
        needs_virtual_memory=True,
    ),
    Step(
        "remapping",
        "P1",
        FACTS,
        "what remapping costs by the size of handles, behind a kernel, to a kernel, and beside processes",
        _OURS + "remapping",
        70,
        needs_virtual_memory=True,
    ),
    Step(
        "lifetimes",
        "P5",
        FACTS,
        "what destroyed streams, green contexts and a missing record_stream do to each allocator",
        _OURS + "lifetimes",
        90,
    ),
    Step(
        "full_device",
        "P4",
        FACTS,
        "what the driver still needs when every page of the device is taken",
        _OURS + "full_device",
        60,
        needs_virtual_memory=True,
    ),
    Step(
        "supply",
        "P4",
        FACTS,
        "whether memory that was just released comes at once, and where addresses end",
        _OURS + "supply",
        35,
        needs_virtual_memory=True,
    ),
    Step(
        "placement",
        "P3",
        FACTS,
        "whether kernels are slower on small or shuffled handles than on cudaMalloc's memory",
        _OURS + "placement",
        90,
        needs_virtual_memory=True,
    ),
    Step(
        "tagged_soak",
        "P6",
        TESTS,
        "whether values survive while memory is moved under running work",
        _OURS + "tagged_soak",
        180,
    ),
    Step("binding_tests", "P6", TESTS, "whether the binding tests pass on this GPU", _OURS + "binding_tests", 360),
    Step(
        "trainings",
        "P7",
        SPEED,
        "whether trainings are as fast with ours, and faster where memory is tight",
        _OURS + "trainings",
        340,
    ),
    Step("histories", "P7", SPEED, "what the driver takes for four recorded programs", _OURS + "histories", 120),
    Step(
        "neighbours",
        "P8",
        SPEED,
        "whether other libraries work in our memory",
        _OURS + "neighbours",
        80,
        takes_the_rest=True,
    ),
    Step(
        "view_limit",
        "P1",
        LIMITS,
        "how many views the machine's driver allows, and how it refuses one more",
        _OURS + "view_limit",
        120,
        needs_virtual_memory=True,
    ),
)


def parts(what: str) -> tuple[str, ...]:
    """A part, or all of them that starve nobody."""
    return tuple(part for part in PARTS if part == what or (what == "all" and part not in BY_NAME_ONLY))


def of(what: str) -> tuple[Step, ...]:
    """The steps of a part, or of all of them that starve nobody."""
    return tuple(step for step in STEPS if step.part in parts(what))
