"""The profile that TensorFlow's profiler writes, NAME.xplane.pb: its events of memory and of steps.

Unlike TensorBoard's tool "memory_profile", which shows a thousand of them at most, it has them all.
The form is tsl/profiler/protobuf/xplane.proto's: planes have lines, lines events, and events statistics.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from . import wire
from .artefact import NotAnArtefact
from .events import Event
from .profile import Course, report_of

_ACTIVITIES = {"MemoryAllocation": "ALLOCATION", "MemoryDeallocation": "DEALLOCATION"}
# What marks a step, and the call of a tf.function.
_MARKS = ("step_num", "tf_function_call")
_LEAST_CALLS = 2
# The file begins with a plane and its length, a plane with its number or its name; text has no such characters.
_START = re.compile(rb"\n[\x80-\xff]{0,9}[\x00-\x7f][\x08\x12]")
# What the allocator counts may differ from the events by so much where they are complete.
_MOST_MISSING = 0.02
# tensorflow/core/framework/types.proto
_TYPES = {
    1: "float",
    2: "double",
    3: "int32",
    4: "uint8",
    7: "string",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    19: "half",
}


def is_xplane(data: bytes) -> bool:
    return _START.match(data) is not None


def from_xplane(data: bytes, name: str) -> dict[str, Any]:
    """The report of a profile.

    Raises:
        NotAnArtefact: it is damaged, or has no events of memory.
    """
    try:
        found = _read(data)
    except (wire.Damaged, ValueError, OverflowError) as error:
        raise NotAnArtefact(f"its profile is damaged ({error}); profile again") from None
    if not found.moments:
        raise NotAnArtefact("its profile holds no events of memory; profile some steps of training")
    function, steps = found.as_steps()
    report = report_of(name, {one: _course(moments, steps) for one, moments in found.moments.items()})
    if function:
        report["notes"].append(f"No steps are marked in the profile: each call of {function} counts as one.")
    elif not steps:
        report["notes"].append(
            "No steps are marked in the profile, so whether memory grows with them is not known: wrap each in "
            'tf.profiler.experimental.Trace("train", step_num=step, _r=1).'
        )
    return report


@dataclasses.dataclass
class _Moment:
    """An event of memory: when, what, and its statistics by name."""

    at: int
    activity: str
    values: dict[str, Any]


@dataclasses.dataclass
class _Found:
    """When each step began, in ps, with its number; of each tf.function, when its calls began and how long they took;
    and the events of memory, by allocator."""

    steps: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    calls: dict[str, list[tuple[int, int]]] = dataclasses.field(default_factory=dict)
    moments: dict[str, list[_Moment]] = dataclasses.field(default_factory=dict)

    def as_steps(self) -> tuple[str, list[tuple[int, int]]]:
        """The marked steps; without them the calls of the function that took longest in all, and its name."""
        repeated = {name: calls for name, calls in self.calls.items() if len(calls) >= _LEAST_CALLS}
        if self.steps or not repeated:
            return "", sorted(self.steps)
        function = max(repeated, key=lambda name: sum(duration for _, duration in repeated[name]))
        return function, [(at, number) for number, (at, _) in enumerate(sorted(repeated[function]), 1)]


def _read(data: bytes) -> _Found:
    found = _Found()
    for plane in wire.messages(data, (0, len(data)), 1):
        names, statistics = _names(data, plane, 4), _names(data, plane, 5)
        wanted = {number for number, one in names.items() if one in _ACTIVITIES}
        marks = {number: one for number, one in statistics.items() if one in _MARKS}
        if not wanted and not marks:
            continue
        for at, duration, number, places in _events(data, plane):
            if number in wanted:
                values = dict(_statistics(data, places, statistics))
                moment = _Moment(at, _ACTIVITIES[names[number]], values)
                found.moments.setdefault(str(values.get("allocator_name", "")), []).append(moment)
            elif marks:
                mark = dict(_statistics(data, places, marks))
                if isinstance(mark.get("step_num"), int):
                    found.steps.append((at, mark["step_num"]))
                elif "tf_function_call" in mark:
                    found.calls.setdefault(names.get(number, ""), []).append((at, duration))
    return found


def _names(data: bytes, plane: tuple[int, int], number: int) -> dict[int, str]:
    """The table of a plane that gives the numbers of events, or of statistics, their names."""
    found = {}
    for entry in wire.messages(data, plane, number):
        key, name = 0, ""
        for field, value in wire.fields(data, *entry):
            if field == 1 and isinstance(value, int):
                key = value
            elif field == 2 and isinstance(value, tuple):
                name = next((wire.text(data, one) for one in wire.messages(data, value, 2)), "")
        found[key] = name
    return found


def _events(data: bytes, plane: tuple[int, int]) -> Iterator[tuple[int, int, int, list[tuple[int, int]]]]:
    """Of each event its time and duration in ps, the number of its name, and where its statistics lie."""
    for line in wire.messages(data, plane, 3):
        began = next((value for field, value in wire.fields(data, *line) if field == 3 and isinstance(value, int)), 0)
        for event in wire.messages(data, line, 4):
            number = offset = duration = 0
            places = []
            for field, value in wire.fields(data, *event):
                if isinstance(value, tuple):
                    if field == 4:
                        places.append(value)
                elif field == 1:
                    number = value
                elif field == 2:
                    offset = value
                elif field == 3:
                    duration = value
            yield began * 1000 + offset, duration, number, places


def _statistics(data: bytes, places: list[tuple[int, int]], names: dict[int, str]) -> Iterator[tuple[str, Any]]:
    for place in places:
        number, found = 0, None
        for field, value in wire.fields(data, *place):
            if field == 1 and isinstance(value, int):
                number = value
            elif field in (3, 4):
                found = value
            elif field == 5:
                found = wire.text(data, value)
            elif field == 7 and isinstance(value, int):
                found = names.get(value, "")
        yield names.get(number, ""), found


def _course(moments: list[_Moment], steps: list[tuple[int, int]]) -> Course:
    moments = sorted(moments, key=lambda one: one.at)
    began = [at for at, _ in steps]
    first = steps[0][1] if steps else 1
    events = []
    for one in moments:
        place = bisect.bisect_right(began, one.at)
        events.append(_event(one, steps[place - 1][1] if place else first - 1))
    before = events[0].held_bytes - events[0].change
    expected = before + sum(event.change for event in events)
    missing = abs(events[-1].held_bytes - expected)
    capacity = events[-1].held_bytes + _amount(moments[-1].values, "bytes_available")
    return Course(events, capacity, complete=missing <= _MOST_MISSING * max(events[-1].held_bytes, 1))


def _event(moment: _Moment, step: int) -> Event:
    values = moment.values
    op = str(values.get("tf_op") or "").replace("(null)", "")
    shape = str(values.get("shape") or "")
    kind = _TYPES.get(_amount(values, "data_type"), "")
    return Event(
        step=step,
        held_bytes=_amount(values, "bytes_allocated"),
        peak_bytes=_amount(values, "peak_bytes_in_use"),
        activity=moment.activity,
        address=_amount(values, "addr"),
        bytes=_amount(values, "allocation_bytes"),
        op=op,
        tensor=f"{kind} {shape}".strip() if op and shape else "",
    )


def _amount(values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0
