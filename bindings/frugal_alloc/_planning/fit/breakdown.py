"""The peaks of a recording, by phase, component and line."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping

from . import changes, growth
from .changes import Traits
from .process_record import Place
from .recording import Recording, Use
from .verdict import COMPONENTS, CONTEXT, PHASES, WASTE, CodeLine, Moment, RankPeaks, Sample

_MOST_SAMPLES = 600

# With what is in use by component.
_State = tuple[Use, Mapping[str, int]]


def peaks(
    recording: Recording,
    places: Mapping[int, Place],
    *,
    rank: int,
    gpu: int,
    counted: tuple[int, int] | None,
    traits: Traits,
) -> RankPeaks | None:
    """None: nothing was allocated.

    Args:
        counted: The most bytes that were requested at a time, and reserved, as PyTorch's allocator says; None: as the
            recording says.
        traits: Of the program.
    """
    if not recording.allocations:
        return None
    best: dict[str, _State] = {}
    samples: dict[int, _State] = {}
    width = max(-(-(recording.end + 1) // _MOST_SAMPLES), 1)
    most_live = most_reserved = 0
    for use, held in _held_by_components(recording):
        most_live, most_reserved = max(most_live, use.live_bytes), max(most_reserved, use.reserved_bytes)
        phase = recording.stretch_at(use.at).phase
        if phase not in best or use.needed > best[phase][0].needed:
            best[phase] = use, _divided(use, held)
        bucket = use.at // width
        if bucket not in samples or use.used > samples[bucket][0].used:
            samples[bucket] = use, _divided(use, held)
    peak = max(best.values(), key=lambda state: state[0].needed)
    lines = _lines_by_site(places)
    requested, reserved = counted or (most_live, most_reserved)
    moment = _moment(recording, *peak, lines)
    at_peak = [made for made in recording.allocations if made.born <= peak[0].at < made.died]
    return RankPeaks(
        rank=rank,
        gpu=gpu,
        peak=moment,
        phases=tuple(_moment(recording, *best[phase], lines) for phase in PHASES if phase in best),
        lines=tuple(changes.held_by_lines(at_peak, lines)),
        series=tuple(_sample(recording, *state) for state in samples.values()),
        requested_peak_bytes=requested,
        reserved_peak_bytes=reserved,
        changes=changes.of_recording(recording, places, lines, phase=moment.phase, traits=traits),
        growth=growth.growth(recording, lines),
        inputs=growth.inputs(recording),
    )


def _held_by_components(recording: Recording) -> Iterator[tuple[Use, Mapping[str, int]]]:
    """After each entry that changed something: the bytes of allocations by component, which change as it goes on."""
    born = {allocation.born: allocation for allocation in recording.allocations}
    died = {allocation.died: allocation for allocation in recording.allocations}
    held: dict[str, int] = dict.fromkeys(COMPONENTS, 0)
    for use in recording.uses:
        for allocation, sign in ((born.get(use.at), 1), (died.get(use.at), -1)):
            if allocation is not None:
                held[allocation.component] += sign * allocation.bytes
        yield use, held


def _divided(use: Use, held: Mapping[str, int]) -> Mapping[str, int]:
    """All that is in use then, by what it is for."""
    beyond = {WASTE: use.reserved_bytes - use.live_bytes, CONTEXT: use.used_bytes - use.reserved_bytes}
    return {name: bytes for name, bytes in {**held, **beyond}.items() if bytes}


def _lines_by_site(places: Mapping[int, Place]) -> dict[int, CodeLine | None]:
    """In a backward pass, that of the forward pass."""

    def line_of(place: Place | None, depth: int = 0) -> CodeLine | None:
        if place is None or depth > 3:
            return None
        if place.where is not None and not place.node:
            return CodeLine(*place.where)
        return line_of(places.get(place.forward), depth + 1) or (CodeLine(*place.where) if place.where else None)

    return {number: line_of(place) for number, place in places.items()}


def _moment(
    recording: Recording, use: Use, components: Mapping[str, int], lines: Mapping[int, CodeLine | None]
) -> Moment:
    stretch = recording.stretch_at(use.at)
    before = bisect.bisect_right(recording.allocations, use.at, key=lambda made: made.born)
    latest = recording.allocations[before - 1] if before else None
    where = lines.get(latest.site) if latest is not None else None
    return Moment(stretch.phase, stretch.step, where, use.used_bytes, components)


def _sample(recording: Recording, use: Use, components: Mapping[str, int]) -> Sample:
    stretch = recording.stretch_at(use.at)
    return Sample(stretch.phase, stretch.step, use.used_bytes, components)
