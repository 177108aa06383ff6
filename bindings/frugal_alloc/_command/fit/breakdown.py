"""The peaks of a recording, by phase, component and line."""

from __future__ import annotations

import bisect
import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from . import savings
from .places import Place
from .recording import Recording
from .verdict import COMPONENTS, CONTEXT, PHASES, WASTE, CodeLine, HeldByLine, Moment, RankPeaks, Sample

_MOST_SAMPLES = 600


@dataclasses.dataclass(frozen=True)
class _State:
    """What the GPU holds after an entry."""

    at: int
    used_bytes: int
    reserved_bytes: int
    live_bytes: int
    components: Mapping[str, int]

    @property
    def needed(self) -> tuple[int, int]:
        """By what cannot be given back, then by all that is in use."""
        return self.used_bytes - self.reserved_bytes + self.live_bytes, self.used_bytes

    @property
    def used(self) -> tuple[int, int]:
        """By all that is in use, then by what of it was asked for."""
        return self.used_bytes, self.live_bytes


def peaks(
    recording: Recording,
    places: Mapping[int, Place],
    *,
    rank: int,
    gpu: int,
    counted: tuple[int, int] | None,
    is_half: bool = False,
) -> RankPeaks | None:
    """None: nothing was allocated.

    Args:
        counted: The most bytes that were requested at a time, and reserved, as PyTorch's allocator says; None: as the
            recording says.
        is_half: The program computes in half precision.
    """
    if not recording.allocations:
        return None
    best: dict[str, _State] = {}
    samples: dict[int, _State] = {}
    width = max(-(-(recording.end + 1) // _MOST_SAMPLES), 1)
    most_live = most_reserved = 0
    for state in _states(recording):
        most_live, most_reserved = max(most_live, state.live_bytes), max(most_reserved, state.reserved_bytes)
        phase = recording.stretches[recording.stretch_at(state.at)].phase
        if phase not in best or state.needed > best[phase].needed:
            best[phase] = _divided(state)
        bucket = state.at // width
        if bucket not in samples or state.used > samples[bucket].used:
            samples[bucket] = _divided(state)
    peak = max(best.values(), key=lambda state: state.needed)
    lines = _lines_by_site(places)
    requested, reserved = counted or (most_live, most_reserved)
    moment = _moment(recording, peak, lines)
    return RankPeaks(
        rank=rank,
        gpu=gpu,
        peak=moment,
        phases=tuple(_moment(recording, best[phase], lines) for phase in PHASES if phase in best),
        lines=tuple(_held(recording, peak.at, lines)),
        series=tuple(_sample(recording, state) for state in samples.values()),
        requested_peak_bytes=requested,
        reserved_peak_bytes=reserved,
        savings=savings.savings(recording, places, lines, phase=moment.phase, is_half=is_half),
    )


def _states(recording: Recording) -> Iterator[_State]:
    """After each entry that changed something; `components` are those of allocations, and change as it goes on."""
    born = {allocation.born: allocation for allocation in recording.allocations}
    died = {allocation.died: allocation for allocation in recording.allocations}
    held: dict[str, int] = dict.fromkeys(COMPONENTS, 0)
    live = 0
    for use in recording.uses:
        for allocation, sign in ((born.get(use.at), 1), (died.get(use.at), -1)):
            if allocation is not None:
                held[allocation.component] += sign * allocation.bytes
                live += sign * allocation.bytes
        yield _State(use.at, use.used_bytes, use.reserved_bytes, live, held)


def _divided(state: _State) -> _State:
    """With all that is in use then, by what it is for."""
    parts = dict(state.components)
    parts[WASTE] = state.reserved_bytes - state.live_bytes
    parts[CONTEXT] = state.used_bytes - state.reserved_bytes
    return dataclasses.replace(state, components={name: bytes for name, bytes in parts.items() if bytes})


def _lines_by_site(places: Mapping[int, Place]) -> dict[int, CodeLine | None]:
    """In a backward pass, that of the forward pass."""

    def line_of(place: Place | None, depth: int = 0) -> CodeLine | None:
        if place is None or depth > 3:
            return None
        if place.where is not None and not place.node:
            return CodeLine(*place.where)
        return line_of(places.get(place.forward), depth + 1) or (CodeLine(*place.where) if place.where else None)

    return {number: line_of(place) for number, place in places.items()}


def _moment(recording: Recording, state: _State, lines: Mapping[int, CodeLine | None]) -> Moment:
    stretch = recording.stretches[recording.stretch_at(state.at)]
    before = bisect.bisect_right(recording.allocations, state.at, key=lambda made: made.born)
    latest = recording.allocations[before - 1] if before else None
    where = lines.get(latest.site) if latest is not None else None
    return Moment(stretch.phase, stretch.step, where, state.used_bytes, state.components)


def _sample(recording: Recording, state: _State) -> Sample:
    stretch = recording.stretches[recording.stretch_at(state.at)]
    return Sample(stretch.phase, stretch.step, state.used_bytes, state.components)


def _held(recording: Recording, at: int, lines: Mapping[int, CodeLine | None]) -> Sequence[HeldByLine]:
    bytes_of: collections.Counter[tuple[CodeLine | None, str]] = collections.Counter()
    blocks_of: collections.Counter[tuple[CodeLine | None, str]] = collections.Counter()
    for allocation in recording.allocations:
        if allocation.born <= at < allocation.died:
            key = lines.get(allocation.site), allocation.component
            bytes_of[key] += allocation.bytes
            blocks_of[key] += 1
    return [HeldByLine(*key, held, blocks_of[key]) for key, held in bytes_of.most_common()]
