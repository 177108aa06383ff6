"""What ``train_bench.py --json`` has written, read with care."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ..training import allocators, results
from .fields import BadInput, Fields, read_json

_OUTCOMES = ("completed", "out_of_memory", "failed")


@dataclasses.dataclass(frozen=True)
class Trainings:
    commit: str
    # Of the machine and its software, by title.
    environment: dict[str, str]
    simulated: bool
    left_out: list[str]
    runs: list[results.Run]

    @property
    def groups(self) -> dict[tuple[str, str], dict[str, results.Summary]]:
        return results.grouped(self.runs)

    @property
    def bars(self) -> list[results.Bar]:
        return results.bars(self.runs)


def read(path: Path) -> Trainings:
    """Raises BadInput where the file is not one of train_bench's."""
    found = Fields(read_json(path), str(path))
    if "setup" not in found or "runs" not in found:
        raise BadInput(f"{path} was not written by train_bench.py --json FILE")
    setup = found.fields("setup")
    simulated = setup.flag("simulated")
    memory = f"{setup.whole('gpu_memory_bytes') / 2**30:.0f} GiB"
    steps = f"{setup.whole('warm_up')} to warm up, {setup.whole('steps')} measured"
    environment = {
        "GPU": f"{setup.text('gpu')}, {memory}",
        **{title.capitalize(): value for title, value in setup.texts("machine").items()},
        **setup.texts("versions"),
        "Steps": steps + (", small models" if setup.flag("quick") else ""),
        "Repeats": str(setup.whole("repeats")),
        "Seed": str(setup.whole("seed")),
    }
    return Trainings(
        commit=setup.text("commit"),
        environment=environment,
        simulated=simulated,
        left_out=[str(sentence) for sentence in setup.items("left_out")],
        runs=[_run(Fields(item, f"{path}: runs[{n}]")) for n, item in enumerate(found.items("runs"))],
    )


def _run(found: Fields) -> results.Run:
    outcome, allocator = found.text("outcome"), found.text("allocator")
    if outcome not in _OUTCOMES:
        raise BadInput(f"{found.where}: 'outcome' is none of {', '.join(_OUTCOMES)}")
    if allocator not in allocators.TITLES:
        raise BadInput(f"{found.where}: 'allocator' is none of {', '.join(allocators.TITLES)}")
    return results.Run(
        workload=found.text("workload"),
        allocator=allocator,
        capacity=found.text("capacity"),
        capacity_bytes=found.whole("capacity_bytes", None),
        repeat=found.whole("repeat"),
        outcome=outcome,
        problem=found.text("problem", None),
        steps_done=found.whole("steps_done"),
        steps_per_second=found.number("steps_per_second", None) or None,
        peak_allocated_bytes=found.whole("peak_allocated_bytes", None),
        peak_reserved_bytes=found.whole("peak_reserved_bytes", None),
        alloc_retries=found.whole("alloc_retries", None),
        ooms=found.whole("ooms", None),
        driver_calls=found.numbers("driver_calls", None) if "driver_calls" in found else None,
        driver_ns=found.whole("driver_ns", None),
        window_driver_calls=found.numbers("window_driver_calls") if "window_driver_calls" in found else None,
        window_driver_ns=found.whole("window_driver_ns", None),
    )
