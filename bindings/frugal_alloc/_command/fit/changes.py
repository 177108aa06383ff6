"""What would make a program smaller, by what its memory is for at the peak; the most useful first."""

from __future__ import annotations

from collections.abc import Iterator

from ..._common.messages import format_bytes, format_code_line
from .verdict import (
    ACTIVATIONS,
    BACKWARD,
    EVALUATION,
    FORWARD,
    GRADIENTS,
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
    """Each with the bytes of the peak that it frees: what the peak holds of it, or an estimate.

    Args:
        is_half: The program computes in half precision already.
    """
    least = rank.peak.used_bytes * _LEAST_PART
    worthwhile = [change for change in _changes(rank, allocator, is_half) if change.bytes >= least]
    return tuple(sorted(worthwhile, key=lambda change: -change.bytes)[:MOST])


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
        yield Change(text, held[OPTIMIZER_STATE] * 3 // 4, is_estimate=True)
    if held.get(GRADIENTS) and rank.peak.phase in (BACKWARD, OPTIMIZER):
        text = "step each parameter as its gradient is there (register_post_accumulate_grad_hook), and let it go"
        yield Change(text, held[GRADIENTS])
    if held.get(WASTE) and allocator != "frugal":
        yield Change("frugal_alloc.enable(): memory that this allocator holds and nobody uses", held[WASTE])


def _of_activations(rank: RankPeaks, is_half: bool) -> Iterator[Change]:
    results = rank.peak.components.get(ACTIVATIONS, 0)
    half = rank.savings.half_batch_bytes
    if rank.peak.phase == EVALUATION:
        yield Change("a smaller batch for evaluation: half of it", half, is_estimate=True)
        return
    line = rank.savings.checkpoints_line
    if line is not None:
        text = (
            "checkpoint the layers whose results are kept for backward (torch.utils.checkpoint): "
            f"{format_bytes(line.bytes)} are of {_written(line)}"
        )
        yield Change(text, rank.savings.checkpoints_bytes, is_estimate=True)
    yield Change("half the batch, with gradients accumulated over twice as many", half, is_estimate=True)
    weights = rank.peak.components.get(PARAMETERS, 0)
    if weights and results > weights and not is_half:
        text = "torch.autocast with bfloat16, where results are in single precision: half of them"
        yield Change(text, results // 2, is_estimate=True)


def _written(line: HeldByLine) -> str:
    return format_code_line(line.where.file, line.where.line) if line.where is not None else ""
