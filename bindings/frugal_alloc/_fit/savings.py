"""What changes of a program would save of the most that it needs: estimates, from what it holds at each moment."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence

from . import places
from .allocations import NEVER, Allocation, Recording
from .places import Place
from .verdict import (
    ACTIVATIONS,
    BACKWARD,
    COMMUNICATION,
    EVALUATION,
    FORWARD,
    INPUTS,
    PARAMETERS,
    TEMPORARIES,
    WORKSPACES,
    CodeLine,
    HeldByLine,
    Savings,
)

# Where no layer repeats another: what checkpoints themselves take, and what is computed again at a time.
_STAYS_OF_UNLIKE_LAYERS = 1 / 3


def savings(
    recording: Recording,
    places_by_site: Mapping[int, Place],
    lines: Mapping[int, CodeLine | None],
    *,
    phase: str,
    is_half: bool,
) -> Savings:
    """
    Args:
        lines: The program's own, by site.
        phase: That of the peak.
        is_half: The program computes in half precision.
    """
    most = _most_live(recording)
    batch = _of_batch(recording, phase, is_half)
    kept = _kept_by_layers(recording, places_by_site)
    size, at = max(((held, at) for at, _, held in _held(recording, kept)), default=(0, 0))
    at_most = [one for one in kept if one.born <= at < one.died]
    stays = _stays(at_most, size)
    return Savings(
        half_batch_bytes=most - _most_live(recording, batch, lambda held: held // 2),
        checkpoints_bytes=most - _most_live(recording, kept, lambda held: held - stays(held)),
        checkpoints_line=_largest_line(at_most, lines),
    )


def _most_live(
    recording: Recording, chosen: Sequence[Allocation] = (), saved: Callable[[int], int] = lambda held: 0
) -> int:
    """Bytes of all allocations at a time, less what is saved of those that the chosen ones have then."""
    return max((live - saved(held) for _, live, held in _held(recording, chosen)), default=0)


def _held(recording: Recording, chosen: Sequence[Allocation]) -> Iterator[tuple[int, int, int]]:
    """Each moment of a change, and the bytes of all allocations that are live from then on, and of the chosen ones."""
    changes: collections.Counter[int] = collections.Counter()
    of_chosen: collections.Counter[int] = collections.Counter()
    for counter, allocations in ((changes, recording.allocations), (of_chosen, chosen)):
        for one in allocations:
            counter[one.born] += one.bytes
            counter[one.died] -= one.bytes
    live = held = 0
    for at in sorted(changes):
        live, held = live + changes[at], held + of_chosen[at]
        yield at, live, held


def _of_batch(recording: Recording, phase: str, is_half: bool) -> list[Allocation]:
    """What grows with the batch; where an evaluation needs most, with its batch.

    Of what is freed in the phase that made it, that which is as large as a parameter is likely its gradient, or its
    copy in half precision.
    """
    weights = [one.bytes for one in recording.allocations if one.component in (PARAMETERS, COMMUNICATION)]
    of_weights = set(weights) | {size // 2 for size in weights}
    copies = _copies_of_parameters(recording) if is_half else set()
    phases = (EVALUATION,) if phase == EVALUATION else (FORWARD, BACKWARD, EVALUATION)

    def grows(one: Allocation) -> bool:
        if one.component == INPUTS:
            return True
        if recording.stretches[one.phase].phase not in phases:
            return False
        if one.component == ACTIVATIONS:
            return one.born not in copies
        return one.component in (TEMPORARIES, WORKSPACES) and one.died != NEVER and one.bytes not in of_weights

    return [one for one in recording.allocations if grows(one)]


def _copies_of_parameters(recording: Recording) -> set[int]:
    """When the copies in half precision were made that autocast keeps until it ends: one of each parameter."""
    sizes = collections.Counter(one.bytes // 2 for one in recording.allocations if one.component == PARAMETERS)
    made: collections.Counter[tuple[int, int]] = collections.Counter()
    found = set()
    for one in recording.allocations:
        if one.component == ACTIVATIONS and made[one.phase, one.bytes] < sizes[one.bytes]:
            made[one.phase, one.bytes] += 1
            found.add(one.born)
    return found


def _kept_by_layers(recording: Recording, places_by_site: Mapping[int, Place]) -> list[Allocation]:
    """What layers keep for the backward pass and checkpoints would let go: not what is in a checkpoint already, nor
    the loss's, nor the model's result, which the loss needs."""
    by_stretch: dict[int, list[Allocation]] = {}
    for one in recording.allocations:
        place = places_by_site.get(one.site)
        if one.component != ACTIVATIONS or place is None or recording.stretches[one.phase].phase != FORWARD:
            continue
        traits = set(place.traits)
        if places.MODULE_CALL in traits and not traits & {places.CHECKPOINTED, places.LOSS}:
            by_stretch.setdefault(one.phase, []).append(one)
    return [one for kept in by_stretch.values() for one in kept[:-1]]


def _stays(at_most: Sequence[Allocation], size: int) -> Callable[[int], int]:
    """How much of so many bytes of what layers keep would stay with checkpoints: these, and as soon as the backward
    pass has let go of any, the results of one layer, which are computed again.

    Args:
        at_most, size: What layers keep when that is most.
    """
    # A loop over layers asks for each layer's memory from the same sites, once for each layer.
    largest: dict[int, int] = {}
    times: collections.Counter[int] = collections.Counter()
    for one in at_most:
        largest[one.site] = max(largest.get(one.site, 0), one.bytes)
        times[one.site] += 1
    layers = max(times.values(), default=0)
    if layers < 2:
        return lambda held: int(held * _STAYS_OF_UNLIKE_LAYERS)
    of_loops: collections.Counter[int] = collections.Counter()
    for site, count in times.items():
        of_loops[count] += largest[site]
    again = max(of_loops.values())
    return lambda held: min(held, held * layers // len(at_most) + (again if held < size else 0))


def _largest_line(at_most: Sequence[Allocation], lines: Mapping[int, CodeLine | None]) -> HeldByLine | None:
    bytes_of: collections.Counter[CodeLine] = collections.Counter()
    blocks_of: collections.Counter[CodeLine] = collections.Counter()
    for one in at_most:
        line = lines.get(one.site)
        if line is not None:
            bytes_of[line] += one.bytes
            blocks_of[line] += 1
    for line, size in bytes_of.most_common(1):
        return HeldByLine(line, ACTIVATIONS, size, blocks_of[line])
    return None
