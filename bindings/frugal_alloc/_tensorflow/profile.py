"""The memory profile of TensorFlow's profiler: the JSON of TensorBoard's tool "memory_profile"."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

from .._trend import TREND_CONFIDENCE, median_slope, rank_confidence
from .artefact import NotAnArtefact, empty_report
from .events import Event

_MOST_SITES = 1000
_MOST_POINTS = 1000
# Of births still alive in other steps than the last, two of warm-up left out, as for PyTorch: so many distinct steps.
_SUSPECT_STEPS, _LEAK_STEPS = 4, 6
_WARM_UP_STEPS = 2
_MOST_INCONSISTENT = 0.02

_HOLDS = (
    "a tensor of {op} is kept with every step: look where its result is stored (append float(loss), not the tensor)"
)
_TOGETHER = (
    "tensors of {ops} are kept with every step, perhaps as one result, such as a dict: keep what is needed of it only, "
    "on the host (.numpy())"
)
_GROWS = "memory grows with every step; profile more steps at once, so that the op can be named"


@dataclasses.dataclass(frozen=True)
class Course:
    """What a profile says of one allocator: its events by time, at least one, and what it may take of the device.

    `complete`: whether no event is missing; None where that has to be seen from the events.
    """

    events: list[Event]
    capacity: int
    complete: bool | None = None


def from_profile(value: Any, name: str) -> dict[str, Any]:
    """The report of a memory profile.

    Raises:
        NotAnArtefact: it is something else.
    """
    allocators = value.get("memoryProfilePerAllocator") if isinstance(value, dict) else None
    if not isinstance(allocators, dict):
        raise NotAnArtefact("it is neither a report of frugal_alloc nor a memory profile of TensorFlow")
    try:
        series = {str(one): _events(profile) for one, profile in allocators.items()}
    except (AttributeError, TypeError, ValueError, OverflowError, KeyError) as error:
        raise NotAnArtefact(f"its memory profile is damaged ({error}); export it again") from None
    series = {one: events for one, events in series.items() if events}
    if not series:
        raise NotAnArtefact("its memory profile holds no events; profile some steps of training")
    return report_of(name, {one: Course(events, _capacity(allocators[one])) for one, events in series.items()})


def report_of(name: str, courses: dict[str, Course]) -> dict[str, Any]:
    """The report of what a profile says, by allocator."""
    # Host memory is not what runs out, unless it is all that there is.
    on_gpus = {one: course for one, course in courses.items() if re.match(r"GPU_\d", one, re.IGNORECASE)}
    steps = len({event.step for course in courses.values() for event in course.events})
    report = empty_report(name, steps, [])
    for number, (allocator, course) in enumerate((on_gpus or courses).items()):
        _add(report, allocator, number, course)
    return report


def _capacity(profile: dict[str, Any]) -> int:
    summary = profile.get("profileSummary")
    try:
        return int(summary.get("memoryCapacity", 0)) if isinstance(summary, dict) else 0
    except (TypeError, ValueError, OverflowError):
        return 0


def _events(profile: dict[str, Any]) -> list[Event]:
    """By time. Newer versions put the course of memory apart from the snapshots of the peak."""
    snapshots = profile.get("sampledTimelineSnapshots") or profile.get("memoryProfileSnapshots") or []
    found = []
    for one in snapshots:
        stats, what = one["aggregationStats"], one["activityMetadata"]
        held = int(stats.get("heapAllocatedBytes", 0)) + int(stats.get("stackReservedBytes", 0))
        event = Event(
            step=int(what.get("stepId", 0)),
            held_bytes=max(held, 0),
            peak_bytes=max(int(stats.get("peakBytesInUse", 0)), 0),
            activity=str(what.get("memoryActivity", "")),
            address=int(what.get("address", 0)),
            bytes=max(int(what.get("allocationBytes", 0)), 0),
            op=str(what.get("tfOpName", "")),
        )
        found.append((int(one.get("timeOffsetPs", 0)), event))
    return [event for _, event in sorted(found, key=lambda item: item[0])]


def _add(report: dict[str, Any], allocator: str, number: int, course: Course) -> None:
    events = course.events
    found = re.match(r"GPU_(\d{1,4})", allocator, re.IGNORECASE)
    gpu = int(found[1]) if found else number
    top = max(events, key=lambda event: event.held_bytes)
    report["gpus"].append(
        {
            "gpu": gpu,
            "name": allocator,
            "total_bytes": course.capacity,
            "allocated_bytes": events[-1].held_bytes,
            "peak_allocated_bytes": max(top.held_bytes, events[-1].peak_bytes),
        }
    )
    report["timeline"]["phases"] = [""]
    report["timeline"]["points"] += [
        [gpu, event.step, 0, 0, event.held_bytes, event.held_bytes, event.held_bytes] for event in _thinned(events)
    ]
    held = _replay(course)
    if held:
        report["sites"] += _sites(gpu, held.at_end, held.at_peak)
    else:
        report["notes"].append("The profile is a sample of its events, so which op holds how much is not known.")
    report["verdicts"] += [one | {"gpu": gpu} for one in _verdicts(course, held)]


def _thinned(events: list[Event]) -> Iterator[Event]:
    """The highest and the last of as many events as make a course that a page can draw."""
    count = math.ceil(len(events) / _MOST_POINTS)
    for place in range(0, len(events), count):
        some = events[place : place + count]
        top = max(some, key=lambda event: event.held_bytes)
        yield top
        if some[-1] is not top:
            yield some[-1]


@dataclasses.dataclass(frozen=True)
class _Held:
    """The allocations that live as the last step begins, at the end, and at the peak."""

    by_last_step: list[Event]
    at_end: list[Event]
    at_peak: list[Event]


def _replay(course: Course) -> _Held | None:
    """None where events are missing, as in a sample."""
    events = course.events
    last_step = max(event.step for event in events)
    live: dict[int, Event] = {}
    at_peak: dict[int, Event] = {}
    by_last_step: list[Event] | None = None
    inconsistent = highest = 0
    before = None
    for event in events:
        inconsistent += before is not None and event.held_bytes - before != event.change
        before = event.held_bytes
        if by_last_step is None and event.step == last_step:
            by_last_step = list(live.values())
        if event.activity == "ALLOCATION":
            live[event.address] = event
        elif event.activity == "DEALLOCATION":
            live.pop(event.address, None)
        if event.held_bytes > highest:
            highest, at_peak = event.held_bytes, dict(live)
    complete = inconsistent <= max(2, _MOST_INCONSISTENT * len(events)) if course.complete is None else course.complete
    return _Held(by_last_step or [], list(live.values()), list(at_peak.values())) if complete else None


def _sites(gpu: int, live: list[Event], at_peak: list[Event]) -> list[dict[str, Any]]:
    sites: dict[str, dict[str, Any]] = {}
    for event in live:
        site = _site(sites, gpu, event.op)
        site["bytes"] += event.bytes
        site["blocks"] += 1
    for event in at_peak:
        _site(sites, gpu, event.op)["peak_bytes"] += event.bytes
    return sorted(sites.values(), key=lambda one: -max(one["bytes"], one["peak_bytes"]))[:_MOST_SITES]


def _site(sites: dict[str, dict[str, Any]], gpu: int, op: str) -> dict[str, Any]:
    fresh = {"gpu": gpu, "function": op or "no op named", "bytes": 0, "peak_bytes": 0, "blocks": 0, "stack": []}
    return sites.setdefault(op, fresh)


def _verdicts(course: Course, held: _Held | None) -> list[dict[str, Any]]:
    """Ops of whose tensors one lives on from each of many steps; where they are not known, growth as a whole."""
    events = course.events
    steps = sorted({event.step for event in events})
    counted = set(steps[_WARM_UP_STEPS:-1])
    if len(counted) < _SUSPECT_STEPS:
        return []
    # The least of each step is what is kept from the steps before it.
    least = {event.step: event.held_bytes for event in sorted(events, key=lambda event: -event.held_bytes)}
    least = {step: least[step] for step in steps[_WARM_UP_STEPS:]}
    rising = rank_confidence(list(least.values()))
    rate = median_slope(list(least.values()), list(least))
    if rising < TREND_CONFIDENCE or rate <= 0:
        return []
    # It runs out where a step needs most, not between steps.
    left = course.capacity - max(event.held_bytes for event in events if event.step >= steps[-2])
    if held is None:
        growth = {"function": "TensorFlow", "bytes": events[-1].held_bytes, "blocks": 0, "epochs": len(counted)}
        return [_verdict("suspect", growth, rate, rising, left, _GROWS)]
    by_op: dict[str, list[Event]] = collections.defaultdict(list)
    for event in held.by_last_step:
        if event.step in counted:
            by_op[event.op].append(event)
    found = []
    for op, kept in by_op.items():
        births = len({event.step for event in kept})
        if births < _SUSPECT_STEPS:
            continue
        size = sum(event.bytes for event in kept)
        what = {"function": _named(op, kept), "bytes": size, "blocks": len(kept), "epochs": births}
        kind = "leak" if births >= _LEAK_STEPS else "suspect"
        advice = _HOLDS.format(op=op or "some op")
        found.append(_verdict(kind, what, size / len(counted), rising, left, advice))
    # A few bytes with each step are counters.
    notable = [one for one in found if one["bytes_per_step"] >= 0.05 * rate]
    for one in notable:
        # All of them fill the memory together.
        one["out_of_memory_in"] = _lasts(left, sum(other["bytes_per_step"] for other in found))
        if len(found) > 1:
            one["advice"] = _TOGETHER.format(ops=f"{len(found)} ops")
    return sorted(notable, key=lambda one: -one["bytes"])


def _lasts(left_bytes: int, rate: float) -> dict[str, float] | None:
    return {"epochs": left_bytes / rate, "steps": left_bytes / rate} if left_bytes > 0 else None


def _named(op: str, kept: list[Event]) -> str:
    """The op, with the tensor that is kept of it if all are alike."""
    tensors = {event.tensor for event in kept}
    (tensor,) = tensors if len(tensors) == 1 else ("",)
    return f"{op}, {tensor}" if op and tensor else op or "no op named"


def _verdict(
    kind: str, what: dict[str, Any], rate: float, confidence: float, left_bytes: int, advice: str
) -> dict[str, Any]:
    return {
        "kind": kind,
        **what,
        "bytes_per_epoch": rate,
        "bytes_per_step": rate,
        "confidence": confidence,
        "pattern": "tensor_of_each_step",
        "advice": advice,
        "out_of_memory_in": _lasts(left_bytes, rate),
    }
