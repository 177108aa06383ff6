"""What changes of a program would save of the most that it needs: estimates, from what it holds at each moment."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..._replay.timeline import NEVER
from . import places
from .places import Place
from .recording import Allocation, Recording
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
    at_most = [block for block in kept if block.born <= at < block.died]
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
        for block in allocations:
            counter[block.born] += block.bytes
            counter[block.died] -= block.bytes
    live = held = 0
    for at in sorted(changes):
        live, held = live + changes[at], held + of_chosen[at]
        yield at, live, held


def _of_batch(recording: Recording, phase: str, is_half: bool) -> list[Allocation]:
    """What grows with the batch; where an evaluation needs most, with its batch.

    Of what is freed in the phase that made it, that which is as large as a parameter is likely its gradient, or its
    copy in half precision.
    """
    weights = [block.bytes for block in recording.allocations if block.component in (PARAMETERS, COMMUNICATION)]
    of_weights = set(weights) | {size // 2 for size in weights}
    copies = _copies_of_parameters(recording) if is_half else set()
    phases = (EVALUATION,) if phase == EVALUATION else (FORWARD, BACKWARD, EVALUATION)

    def grows(block: Allocation) -> bool:
        if block.component == INPUTS:
            return True
        if recording.stretches[block.phase].phase not in phases:
            return False
        if block.component == ACTIVATIONS:
            return block.born not in copies
        return block.component in (TEMPORARIES, WORKSPACES) and block.died != NEVER and block.bytes not in of_weights

    return [block for block in recording.allocations if grows(block)]


def _copies_of_parameters(recording: Recording) -> set[int]:
    """When the copies in half precision were made that autocast keeps until it ends: one of each parameter."""
    sizes = collections.Counter(block.bytes // 2 for block in recording.allocations if block.component == PARAMETERS)
    copied: collections.Counter[tuple[int, int]] = collections.Counter()
    copies = set()
    for block in recording.allocations:
        if block.component == ACTIVATIONS and copied[block.phase, block.bytes] < sizes[block.bytes]:
            copied[block.phase, block.bytes] += 1
            copies.add(block.born)
    return copies


def _kept_by_layers(recording: Recording, places_by_site: Mapping[int, Place]) -> list[Allocation]:
    """What layers keep for the backward pass and checkpoints would let go: not what is in a checkpoint already, nor
    the loss's, nor the model's result, which the loss needs."""
    by_stretch: dict[int, list[Allocation]] = {}
    for block in recording.allocations:
        place = places_by_site.get(block.site)
        if block.component != ACTIVATIONS or place is None or recording.stretches[block.phase].phase != FORWARD:
            continue
        traits = set(place.traits)
        if places.MODULE_CALL in traits and not traits & {places.CHECKPOINTED, places.LOSS}:
            by_stretch.setdefault(block.phase, []).append(block)
    return [block for kept in by_stretch.values() for block in kept[:-1]]


def _stays(at_most: Sequence[Allocation], size: int) -> Callable[[int], int]:
    """How much of so many bytes of what layers keep would stay with checkpoints: these, and as soon as the backward
    pass has let go of any, the results of one layer, which are computed again.

    Args:
        at_most, size: What layers keep when that is most.
    """
    # A loop over layers asks for each layer's memory from the same sites, once for each layer.
    largest: dict[int, int] = {}
    times: collections.Counter[int] = collections.Counter()
    for block in at_most:
        largest[block.site] = max(largest.get(block.site, 0), block.bytes)
        times[block.site] += 1
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
    for block in at_most:
        line = lines.get(block.site)
        if line is not None:
            bytes_of[line] += block.bytes
            blocks_of[line] += 1
    for line, size in bytes_of.most_common(1):
        return HeldByLine(line, ACTIVATIONS, size, blocks_of[line])
    return None
