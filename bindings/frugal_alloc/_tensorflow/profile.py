"""The memory profile of TensorFlow's profiler: the JSON of TensorBoard's tool "memory_profile"."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import Any

from .._trend import TREND_CONFIDENCE, median_slope, rank_confidence
from .artefact import NotAnArtefact, empty_report

_MOST_SITES = 1000
# Of births still alive in other steps than the last, two of warm-up left out, as for PyTorch: so many distinct steps.
_SUSPECT_STEPS, _LEAK_STEPS = 4, 6
_WARM_UP_STEPS = 2
_MOST_INCONSISTENT = 0.02

_HOLDS = (
    "a tensor of {op} is kept with every step: look where its result is stored (append float(loss), not the tensor)"
)
_GROWS = "memory grows with every step; profile more steps at once, so that the op can be named"


@dataclasses.dataclass(frozen=True)
class _Event:
    step: int
    held_bytes: int
    peak_bytes: int
    activity: str
    address: int
    bytes: int
    op: str


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
    # Host memory is not what runs out, unless it is all that there is.
    on_gpus = {one: events for one, events in series.items() if re.match(r"GPU_\d", one, re.IGNORECASE)}
    steps = len({event.step for events in series.values() for event in events})
    report = empty_report(name, steps, [])
    for number, (allocator, events) in enumerate((on_gpus or series).items()):
        _add(report, allocator, number, events, _capacity(allocators[allocator]))
    return report


def _capacity(profile: dict[str, Any]) -> int:
    summary = profile.get("profileSummary")
    try:
        return int(summary.get("memoryCapacity", 0)) if isinstance(summary, dict) else 0
    except (TypeError, ValueError, OverflowError):
        return 0


def _events(profile: dict[str, Any]) -> list[_Event]:
    """By time. Newer versions put the course of memory apart from the snapshots of the peak."""
    snapshots = profile.get("sampledTimelineSnapshots") or profile.get("memoryProfileSnapshots") or []
    found = []
    for one in snapshots:
        stats, what = one["aggregationStats"], one["activityMetadata"]
        held = int(stats.get("heapAllocatedBytes", 0)) + int(stats.get("stackReservedBytes", 0))
        event = _Event(
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


def _add(report: dict[str, Any], allocator: str, number: int, events: list[_Event], capacity: int) -> None:
    found = re.match(r"GPU_(\d{1,4})", allocator, re.IGNORECASE)
    gpu = int(found[1]) if found else number
    top = max(events, key=lambda event: event.held_bytes)
    report["gpus"].append(
        {
            "gpu": gpu,
            "name": allocator,
            "total_bytes": capacity,
            "allocated_bytes": events[-1].held_bytes,
            "peak_allocated_bytes": max(top.held_bytes, events[-1].peak_bytes),
        }
    )
    report["timeline"]["phases"] = [""]
    report["timeline"]["points"] += [
        [gpu, event.step, 0, 0, event.held_bytes, event.held_bytes, event.held_bytes] for event in events
    ]
    live, at_peak = _replay(events)
    report["sites"] += _sites(gpu, live or [], at_peak or [])
    if live is None:
        report["notes"].append("The profile is a sample of its events, so which op holds how much is not known.")
    report["verdicts"] += [one | {"gpu": gpu} for one in _verdicts(events, live, capacity)]


def _replay(events: list[_Event]) -> tuple[list[_Event] | None, list[_Event] | None]:
    """The allocations that live at the end, and at the peak; None where events are missing, as in a sample."""
    live: dict[int, _Event] = {}
    at_peak: dict[int, _Event] = {}
    inconsistent = highest = 0
    before = None
    for event in events:
        sign = {"ALLOCATION": 1, "DEALLOCATION": -1}.get(event.activity, 0)
        inconsistent += before is not None and event.held_bytes - before != sign * event.bytes
        before = event.held_bytes
        if sign > 0:
            live[event.address] = event
        elif sign < 0:
            live.pop(event.address, None)
        if event.held_bytes > highest:
            highest, at_peak = event.held_bytes, dict(live)
    if inconsistent > max(2, _MOST_INCONSISTENT * len(events)):
        return None, None
    return list(live.values()), list(at_peak.values())


def _sites(gpu: int, live: list[_Event], at_peak: list[_Event]) -> list[dict[str, Any]]:
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


def _verdicts(events: list[_Event], live: list[_Event] | None, capacity: int) -> list[dict[str, Any]]:
    """Ops of whose tensors one lives on from each of many steps; where they are not known, growth as a whole."""
    steps = sorted({event.step for event in events})
    counted = set(steps[_WARM_UP_STEPS:-1])
    if len(counted) < _SUSPECT_STEPS:
        return []
    # The least of each step is what is kept from the steps before it.
    least = {step: min(event.held_bytes for event in events if event.step == step) for step in steps[_WARM_UP_STEPS:]}
    rising = rank_confidence(list(least.values()))
    rate = median_slope(list(least.values()), list(least))
    if rising < TREND_CONFIDENCE or rate <= 0:
        return []
    if live is None:
        growth = {"function": "TensorFlow", "bytes": events[-1].held_bytes, "blocks": 0, "epochs": len(counted)}
        return [_verdict("suspect", growth, rate, rising, capacity - events[-1].held_bytes, _GROWS)]
    by_op: dict[str, list[_Event]] = collections.defaultdict(list)
    for event in live:
        if event.step in counted:
            by_op[event.op].append(event)
    found = []
    for op, kept in by_op.items():
        births = len({event.step for event in kept})
        if births < _SUSPECT_STEPS:
            continue
        held = sum(event.bytes for event in kept)
        what = {"function": op or "no op named", "bytes": held, "blocks": len(kept), "epochs": births}
        kind = "leak" if births >= _LEAK_STEPS else "suspect"
        advice = _HOLDS.format(op=op or "some op")
        found.append(_verdict(kind, what, held / len(counted), rising, capacity - events[-1].held_bytes, advice))
    # A few bytes with each step are counters.
    notable = [one for one in found if one["bytes_per_step"] >= 0.05 * rate]
    return sorted(notable, key=lambda one: -one["bytes"])


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
        "out_of_memory_in": {"epochs": left_bytes / rate, "steps": left_bytes / rate} if left_bytes > 0 else None,
    }
