"""The steps of the kit, in order of value within each part. One is added by its line here and a module."""

from __future__ import annotations

import dataclasses

from frugal_alloc._command.doctor.steps import DOCTORS, Step

FACTS, TESTS, SPEED, LIMITS = "facts", "tests", "speed", "limits"
#: The most that a part takes, in seconds, whatever its steps do.
PARTS = {FACTS: 10 * 60, TESTS: 9 * 60, SPEED: 9 * 60, LIMITS: 2 * 60}
#: Parts that starve others on the machine: only by their names, with --alone.
BY_NAME_ONLY = (LIMITS,)


def _doctors(name: str, seconds: int) -> Step:
    (found,) = (step for step in DOCTORS if step.name == name)
    return dataclasses.replace(found, seconds=seconds)


def _maps(name: str, probe: str, seconds: int, question: str, part: str = FACTS) -> Step:
    return Step(name, probe, seconds, question, part, __package__, needs_virtual_memory=True)


def _programs(name: str, probe: str, seconds: int, question: str, part: str, takes_the_rest: bool = False) -> Step:
    return Step(name, probe, seconds, question, part, __package__, takes_the_rest=takes_the_rest)


STEPS = (
    _doctors("driver_costs", 100),
    _maps("live_views", "P1", 60, "whether calls become slower with the number of views, and what views cost the host"),
    _maps(
        "mappings",
        "P2",
        15,
        "what else the driver makes of handles: a part of one, several addresses, adjacent reservations",
    ),
    _doctors("aliasing", 60),
    _maps("remapping", "P1", 40, "what remapping costs to a kernel that runs beside it, and to other processes"),
    _doctors("lifetimes", 90),
    _maps("full_device", "P4", 60, "what the driver still needs when every page of the device is taken"),
    _maps("supply", "P4", 35, "whether memory that was just released comes at once, and where addresses end"),
    _maps("placement", "P3", 90, "whether kernels are slower on small or shuffled handles than on cudaMalloc's memory"),
    _programs("tagged_soak", "P6", 180, "whether values survive while memory is moved under running work", TESTS),
    _programs("binding_tests", "P6", 360, "whether the binding tests pass on this GPU", TESTS),
    _programs(
        "trainings", "P7", 340, "whether trainings are as fast with ours, and faster where memory is tight", SPEED
    ),
    _programs("histories", "P7", 120, "what the driver takes for four recorded programs", SPEED),
    _programs("neighbours", "P8", 80, "whether other libraries work in our memory", SPEED, takes_the_rest=True),
    _maps("view_limit", "P1", 120, "how many views the machine's driver allows, and how it refuses one more", LIMITS),
)


def parts(what: str) -> tuple[str, ...]:
    """A part, or all of them that starve nobody."""
    return tuple(part for part in PARTS if part == what or (what == "all" and part not in BY_NAME_ONLY))


def of(what: str) -> tuple[Step, ...]:
    """The steps of a part, or of all of them that starve nobody."""
    return tuple(step for step in STEPS if step.part in parts(what))
