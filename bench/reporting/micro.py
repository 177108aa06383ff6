"""What Google Benchmark writes with ``--benchmark_out``, as tables: cases down, subjects across."""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path

from .fields import BadInput, Fields, read_json

_NATIVE = "Native"
_NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
# Of several threads, the first is the sum over them and the second shows how they wait for one another.
_TIMES = {"CPU time": "cpu_time", "Time by the clock": "real_time"}
_OWN_FIELDS = {
    "name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index",
    "threads", "iterations", "real_time", "cpu_time", "time_unit", "aggregate_name", "aggregate_unit", "label",
    "error_occurred", "error_message", "skipped", "skip_message", "big_o", "rms", "cpu_coefficient",
    "real_coefficient",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Entry:
    # None: it was not measured.
    value: float | None
    # The value over that of the native allocator in the same case.
    of_native: float | None


@dataclasses.dataclass(frozen=True)
class Table:
    """One figure of all benchmarks: of the case "4096" and the subject "Native", as of "Native/4096"."""

    title: str
    unit: str
    subjects: list[str]
    # Of each case, one for each subject.
    rows: list[tuple[str, list[Entry]]]


@dataclasses.dataclass(frozen=True)
class Micro:
    time: str
    # Of the build and the machine, by title.
    context: dict[str, str]
    tables: list[Table]


def read(path: Path) -> Micro:
    """Raises BadInput where the file was not written by Google Benchmark."""
    found = Fields(read_json(path), str(path))
    if "context" not in found or "benchmarks" not in found:
        raise BadInput(f"{path} was not written by a benchmark with --benchmark_out=FILE --benchmark_out_format=json")
    figures: dict[str, dict[str, list[float]]] = {}
    for n, item in enumerate(found.items("benchmarks")):
        _add(figures, Fields(item, f"{path}: benchmarks[{n}]"))
    context = found.fields("context")
    shown = {"Processors": f"{context.whole('num_cpus')} at {context.whole('mhz_per_cpu')} MHz"}
    return Micro(context.text("date"), shown, [_table(name, values) for name, values in figures.items()])


def _add(figures: dict[str, dict[str, list[float]]], found: Fields) -> None:
    """Enters one run; aggregates are left out, since the median is taken here."""
    if found.text("run_type", "iteration") != "iteration" or found.flag("error_occurred", False):
        return
    name = found.text("run_name", None) or found.text("name")
    unit = found.text("time_unit", "ns")
    if unit not in _NANOSECONDS:
        raise BadInput(f"{found.where}: {unit!r} is no unit of time")
    for title, field in _TIMES.items():
        figures.setdefault(title, {}).setdefault(name, []).append(found.number(field) * _NANOSECONDS[unit])
    for counter in found.names():
        if counter not in _OWN_FIELDS:
            figures.setdefault(counter, {}).setdefault(name, []).append(found.number(counter))


def _table(title: str, values: dict[str, list[float]]) -> Table:
    names = {name: name.partition("/")[::2] for name in values}
    subjects = list(dict.fromkeys(subject for subject, _ in names.values()))
    cases = list(dict.fromkeys(case for _, case in names.values()))
    medians = {names[name]: statistics.median(found) for name, found in values.items()}
    rows = [(case or "all", [_entry(medians, subject, case) for subject in subjects]) for case in cases]
    return Table(title, "ns" if title in _TIMES else "", subjects, rows)


def _entry(medians: dict[tuple[str, str], float], subject: str, case: str) -> Entry:
    value, native = medians.get((subject, case)), medians.get((_NATIVE, case))
    return Entry(value, value / native if value is not None and native and subject != _NATIVE else None)
