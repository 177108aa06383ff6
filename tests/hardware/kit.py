"""What lies beside the steps where the check runs, in a packed folder or a checkout; and the steps, in order of value
within each part. One is added by its line here and a module."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor.step import DOCTORS, Step

#: The folder with tests/ and bench/.
ROOT = Path(__file__).resolve().parents[2]
KERNELS = Path(__file__).resolve().parent / "kernels"

FACTS, TESTS, THROUGHPUT, SPEED, LIMITS = "facts", "tests", "throughput", "speed", "limits"
#: Questions that follow, each a part by itself.
NEXT = SWITCHES, NCCL, SLEEP, SHARING, MICRO = "switches", "nccl", "sleep", "sharing", "micro"
#: The most that a part takes, in seconds, whatever its steps do.
PARTS = {FACTS: 10 * 60, TESTS: 9 * 60, THROUGHPUT: 8 * 60, SPEED: 4 * 60, LIMITS: 2 * 60} | dict.fromkeys(NEXT, 3 * 60)
#: They starve others on the machine: only with --alone.
STARVING = (LIMITS,)
_BY_NAME_ONLY = (*STARVING, *NEXT)

_VIEWS = "whether calls become slower with the number of views, and what views cost the host"
_MAPPINGS = "what else the driver makes of handles: a part of one, several addresses, adjacent reservations"
_REMAPPING = "what remapping costs to a kernel that runs beside it, and to other processes"
_FULL = "what the driver still needs when every page of the device is taken"
_SUPPLY = "whether memory that was just released comes at once, and where addresses end"
_PLACEMENT = "whether kernels are slower on small or shuffled handles than on cudaMalloc's memory"
_SOAK = "whether values survive while memory is moved under running work"
_SLEEPING = "whether what sleeps comes back whole, and how fast, beside whole segments that sleep"
_THROUGHPUT = "whether programs are as fast with ours, and faster where memory is tight"
_LIMIT = "how many views the machine's driver allows, and how it refuses one more"


#: What throughput writes into its folder; and what it adds to, which lies beside the folder of all steps.
MEASURED, ROWS, EARLIER = "throughput.json", "rows.txt", "earlier.json"


def _doctors(name: str, seconds: int) -> Step:
    return next(dataclasses.replace(step, seconds=seconds) for step in DOCTORS if step.name == name)


def _own(name: str, probe: str, seconds: int, question: str, part: str = FACTS, **more: Any) -> Step:
    more.setdefault("needs_virtual_memory", part in (FACTS, LIMITS))
    return Step(name, probe, seconds, question, part, __package__, **more)


STEPS = (
    _doctors("driver_costs", 100),
    _own("live_views", "P1", 60, _VIEWS),
    _own("mappings", "P2", 15, _MAPPINGS),
    _doctors("aliasing", 60),
    _own("remapping", "P1", 40, _REMAPPING),
    _doctors("lifetimes", 90),
    _own("full_device", "P4", 60, _FULL),
    _own("supply", "P4", 35, _SUPPLY),
    _own("placement", "P3", 90, _PLACEMENT),
    _own("tagged_soak", "P6", 180, _SOAK, TESTS),
    _own("sleeping", "P9", 60, _SLEEPING, TESTS, needs_virtual_memory=True),
    _own("binding_tests", "P6", 300, "whether the binding tests pass on this GPU", TESTS),
    _own("throughput", "P7", 480, _THROUGHPUT, THROUGHPUT),
    _own("histories", "P7", 120, "what the driver takes for four recorded programs", SPEED),
    _own("neighbours", "P8", 80, "whether other libraries work in our memory", SPEED, takes_the_rest=True),
    _own("view_limit", "P1", 120, _LIMIT, LIMITS),
    _own("switches", "P6", 180, "whether the tests of switches pass, each told as it ends", SWITCHES),
    _own("nccl", "P8", 180, "whether NCCL works alone, and registers our memory", NCCL),
    _own("large_sleep", "P9", 180, "whether 60 GiB sleep and wake, pinned, and how fast", SLEEP),
    _own("gpu_sharing", "P9", 180, "whether eight processes share a GPU, and how fast each is", SHARING),
    _own("pairs", "P7", 180, "what an allocation and its free take the host, by size", MICRO),
)


def parts(what: str) -> tuple[str, ...]:
    """A part, or all of them that starve nobody and that do not only follow from others."""
    return tuple(part for part in PARTS if part == what or (what == "all" and part not in _BY_NAME_ONLY))


def steps(what: str) -> tuple[Step, ...]:
    """The steps of a part, or of all of them."""
    return tuple(step for step in STEPS if step.part in parts(what))


# --- What lies beside them.


def commit() -> str | None:
    """Of the checkout that was packed; None if this was not."""
    try:
        return json.loads((ROOT / "packed.json").read_text())["commit"]
    except (OSError, ValueError, KeyError):
        return None


def with_pytest(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which pytest can be imported: this Python's own, or else the one that was packed; without
    the plugins that happen to be installed."""
    result = {**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if importlib.util.find_spec("pytest") is None:
        entries = [*filter(None, result.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT / "vendored")]
        result["PYTHONPATH"] = os.pathsep.join(entries)
    return result
