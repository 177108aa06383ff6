"""What would make a program smaller, by what its memory is for at the peak, and what that would save."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..._common.messages import format_bytes, format_code_line
from ..._replay.timeline import NEVER
from . import process_record, verdict
from .process_record import Place
from .recording import Allocation, Recording
from .verdict import BACKWARD, EVALUATION, FORWARD, OPTIMIZER, Change, CodeLine, HeldByLine, RankPeaks, Savings

# Of the peak; what brings less is not worth its line.
_LEAST_PART = 0.05
MOST = 5
# Where no layer repeats another: what checkpoints themselves take, and what is computed again at a time.
_STAYS_OF_UNLIKE_LAYERS = 1 / 3


def of_rank(rank: RankPeaks, allocator: str, is_half: bool) -> tuple[Change, ...]:
    """The most useful first, each with the bytes of the peak that it frees: what the peak holds of it, or an estimate.

    Args:
        is_half: The program computes in half precision already.
    """
    least = max(rank.peak.used_bytes * _LEAST_PART, 1)
    worthwhile = [change for change in _changes(rank, allocator, is_half) if change.bytes >= least]
    return tuple(sorted(worthwhile, key=lambda change: -change.bytes)[:MOST])


def _changes(rank: RankPeaks, allocator: str, is_half: bool) -> Iterator[Change]:
    phase, held = rank.peak.phase, collections.Counter(rank.peak.components)
    half = rank.savings.half_batch_bytes
    if phase == EVALUATION:
        yield Change("a smaller batch for evaluation: half of it", half, is_estimate=True)
    else:
        if (line := rank.savings.checkpoints_line) is not None:
            where = format_code_line(line.where.file, line.where.line) if line.where is not None else ""
            text = (
                "checkpoint the layers whose results are kept for backward (torch.utils.checkpoint): "
                f"{format_bytes(line.bytes)} are of {where}"
            )
            yield Change(text, rank.savings.checkpoints_bytes, is_estimate=True)
        yield Change("half the batch, with gradients accumulated over twice as many", half, is_estimate=True)
        if held[verdict.ACTIVATIONS] > held[verdict.PARAMETERS] > 0 and not is_half:
            text = "torch.autocast with bfloat16, where results are in single precision: half of them"
            yield Change(text, held[verdict.ACTIVATIONS] // 2, is_estimate=True)
    if phase == FORWARD:
        text = (
            "call optimizer.zero_grad() before the forward pass, not after it, or with set_to_none=True: the gradients "
            "of the step before are still there"
        )
        yield Change(text, held[verdict.GRADIENTS])
    if phase == OPTIMIZER:
        text = (
            "make the optimizer with fused=True or foreach=False: a step makes temporaries as large as the parameters"
        )
        yield Change(text, held[verdict.TEMPORARIES])
    text = (
        "an optimizer with a smaller state (8-bit, Adafactor or SGD), or the state shared out among ranks "
        "(ZeroRedundancyOptimizer, fully_shard): 8-bit states take a quarter of single precision"
    )
    yield Change(text, held[verdict.OPTIMIZER_STATE] * 3 // 4, is_estimate=True)
    if phase in (BACKWARD, OPTIMIZER):
        text = "step each parameter as its gradient is there (register_post_accumulate_grad_hook), and let it go"
        yield Change(text, held[verdict.GRADIENTS])
    if allocator != "frugal":
        yield Change("frugal_alloc.enable(): memory that this allocator holds and nobody uses", held[verdict.WASTE])


def savings(
    recording: Recording,
    places_by_site: Mapping[int, Place],
    lines: Mapping[int, CodeLine | None],
    *,
    phase: str,
    is_half: bool,
) -> Savings:
    """Estimates, from what the program holds at each moment.

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
        checkpoints_line=next(
            (line for line in held_by_lines(at_most, lines) if line.where is not None),
            None,
        ),
    )


def held_by_lines(allocations: Sequence[Allocation], lines: Mapping[int, CodeLine | None]) -> list[HeldByLine]:
    """The most first."""
    bytes_of: collections.Counter[tuple[CodeLine | None, str]] = collections.Counter()
    blocks_of: collections.Counter[tuple[CodeLine | None, str]] = collections.Counter()
    for block in allocations:
        key = lines.get(block.site), block.component
        bytes_of[key] += block.bytes
        blocks_of[key] += 1
    return [HeldByLine(*key, held, blocks_of[key]) for key, held in bytes_of.most_common()]


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
    kinds_of_weights = (verdict.PARAMETERS, verdict.COMMUNICATION)
    weights = [block.bytes for block in recording.allocations if block.component in kinds_of_weights]
    of_weights = set(weights) | {size // 2 for size in weights}
    copies = _copies_of_parameters(recording) if is_half else set()
    phases = (EVALUATION,) if phase == EVALUATION else (FORWARD, BACKWARD, EVALUATION)

    def grows(block: Allocation) -> bool:
        if block.component == verdict.INPUTS:
            return True
        if recording.stretches[block.phase].phase not in phases:
            return False
        if block.component == verdict.ACTIVATIONS:
            return block.born not in copies
        is_passing = block.component in (verdict.TEMPORARIES, verdict.WORKSPACES) and block.died != NEVER
        return is_passing and block.bytes not in of_weights

    return [block for block in recording.allocations if grows(block)]


def _copies_of_parameters(recording: Recording) -> set[int]:
    """When the copies in half precision were made that autocast keeps until it ends: one of each parameter."""
    parameters = [block for block in recording.allocations if block.component == verdict.PARAMETERS]
    sizes = collections.Counter(block.bytes // 2 for block in parameters)
    copied: collections.Counter[tuple[int, int]] = collections.Counter()
    copies = set()
    for block in recording.allocations:
        if block.component == verdict.ACTIVATIONS and copied[block.phase, block.bytes] < sizes[block.bytes]:
            copied[block.phase, block.bytes] += 1
            copies.add(block.born)
    return copies


def _kept_by_layers(recording: Recording, places_by_site: Mapping[int, Place]) -> list[Allocation]:
    """What layers keep for the backward pass and checkpoints would let go: not what is in a checkpoint already, nor
    the loss's, nor the model's result, which the loss needs."""
    by_stretch: dict[int, list[Allocation]] = {}
    for block in recording.allocations:
        place = places_by_site.get(block.site)
        is_forward = recording.stretches[block.phase].phase == FORWARD
        if block.component != verdict.ACTIVATIONS or place is None or not is_forward:
            continue
        traits = set(place.traits)
        if process_record.MODULE_CALL in traits and not traits & {process_record.CHECKPOINTED, process_record.LOSS}:
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
