"""What would make a program smaller, by what its memory is for at the peak; the most useful first."""

from __future__ import annotations

from collections.abc import Iterator

from .._amounts import format_bytes, format_code_line
from .verdict import (
    ACTIVATIONS,
    BACKWARD,
    EVALUATION,
    FORWARD,
    GRADIENTS,
    INPUTS,
    OPTIMIZER,
    OPTIMIZER_STATE,
    PARAMETERS,
    TEMPORARIES,
    WASTE,
    Change,
    HeldByLine,
    RankPeaks,
)

# Of the peak; what brings less is not worth its line.
_LEAST_PART = 0.05
MOST = 5


def of_rank(rank: RankPeaks, allocator: str, is_half: bool) -> tuple[Change, ...]:
    """Each with the bytes of the peak that it frees, as far as they can be counted from what the peak holds.

    Args:
        is_half: The program computes in half precision already.
    """
    least = rank.peak.used_bytes * _LEAST_PART
    found = [change for change in _changes(rank, allocator, is_half) if change.bytes >= least]
    return tuple(sorted(found, key=lambda change: -change.bytes)[:MOST])


def _changes(rank: RankPeaks, allocator: str, is_half: bool) -> Iterator[Change]:
    held = rank.peak.components
    yield from _of_activations(rank, is_half)
    if rank.peak.phase == FORWARD and held.get(GRADIENTS):
        text = (
            "call optimizer.zero_grad() before the forward pass, not after it, or with set_to_none=True: the gradients "
            "of the step before are still there"
        )
        yield Change(text, held[GRADIENTS])
    if rank.peak.phase == OPTIMIZER and held.get(TEMPORARIES):
        text = (
            "make the optimizer with fused=True or foreach=False: a step makes temporaries as large as the parameters"
        )
        yield Change(text, held[TEMPORARIES])
    if held.get(OPTIMIZER_STATE):
        text = (
            "an optimizer with a smaller state (8-bit, Adafactor or SGD), or the state shared out among ranks "
            "(ZeroRedundancyOptimizer, fully_shard): 8-bit states take a quarter of single precision"
        )
        yield Change(text, held[OPTIMIZER_STATE] * 3 // 4)
    if held.get(GRADIENTS) and rank.peak.phase in (BACKWARD, OPTIMIZER):
        text = "step each parameter as its gradient is there (register_post_accumulate_grad_hook), and let it go"
        yield Change(text, held[GRADIENTS])
    if held.get(WASTE) and allocator != "frugal":
        yield Change("frugal_alloc.enable(): memory that this allocator holds and nobody uses", held[WASTE])


def _of_activations(rank: RankPeaks, is_half: bool) -> Iterator[Change]:
    held = rank.peak.components
    results = held.get(ACTIVATIONS, 0)
    if not results:
        return
    if rank.peak.phase == EVALUATION:
        yield Change("a smaller batch for evaluation: half of it, about", (results + held.get(INPUTS, 0)) // 2)
        return
    where = _largest(rank, ACTIVATIONS)
    text = (
        "checkpoint the layers whose results are kept for backward (torch.utils.checkpoint): "
        f"{format_bytes(where.bytes)} are of {_written(where)}"
        if where is not None and where.where is not None
        else "checkpoint the layers whose results are kept for backward (torch.utils.checkpoint)"
    )
    # The checkpoints themselves stay, and one layer's results are there at a time.
    yield Change(text, results * 2 // 3)
    yield Change("half the batch, with gradients accumulated over twice as many", (results + held.get(INPUTS, 0)) // 2)
    weights = held.get(PARAMETERS, 0)
    if weights and results > weights and not is_half:
        yield Change(
            "torch.autocast with bfloat16, where results are in single precision: half of them, about", results // 2
        )


def _largest(rank: RankPeaks, component: str) -> HeldByLine | None:
    return next((line for line in rank.lines if line.component == component and line.where is not None), None)


def _written(line: HeldByLine) -> str:
    return format_code_line(line.where.file, line.where.line) if line.where is not None else ""
