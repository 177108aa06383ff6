"""By how much what is told of a line grows with each epoch of the program, and in how many of these."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

from .._common.trend import Held, median_slope
from .._heap.live_tensors import Block
from .._native.epochs import Finding

if TYPE_CHECKING:
    from .epochs import Epochs


def is_less(now: float, before: float) -> bool:
    """Whether some was let go; a tenth may have become part of the first epochs, which are not counted."""
    return 10 * now < 9 * before


def of_all(finding: Finding, blocks: list[Block]) -> Finding:
    """A finding of all blocks that its line keeps. The library's may be of one size among them, where the other sizes
    are too few to be judged."""
    kept, rate = sum(size for _, size, _ in blocks), _rate(blocks)
    before = finding.bytes_per_epoch
    is_of_all = not is_less(finding.bytes, kept)
    # Where some is replaced as it grows, what is left of each epoch does not tell the rate.
    is_replaced = is_of_all and is_less(min(rate, before), max(rate, before))
    if not rate or is_replaced or is_less(kept, finding.bytes):
        return finding
    births = {birth for _, _, birth in blocks if birth >= 0}
    return finding._replace(bytes=kept, blocks=len(blocks), epochs=len(births), bytes_per_epoch=rate)


def _rate(blocks: list[Block]) -> float:
    """Of what is left, from the first epoch that has left some to the last; 0: that is not known."""
    by_birth: Counter[int] = Counter()
    for _, size, birth in blocks:
        by_birth[birth] += size
    births = range(min(by_birth, default=-1), max(by_birth, default=-1) + 1)
    return median_slope(list(itertools.accumulate(by_birth[birth] for birth in births))) if births.start >= 0 else 0.0


def per_program_epoch(finding: Finding, blocks: list[Block], epochs: Epochs) -> tuple[Finding, float | None]:
    """The finding in epochs of the program, and its bytes per step."""
    steps, per_epoch = epochs.steps_per_judged_epoch, epochs.steps_per_epoch
    per_step = finding.bytes_per_epoch / steps if steps else None
    rate = per_step * per_epoch if per_step is not None and per_epoch else finding.bytes_per_epoch
    count = finding.epochs
    if epochs.window_steps is not None and per_epoch:
        births = [birth for _, _, birth in blocks if birth >= 0] or [0, count - 1]
        spanned = math.ceil((max(births) - min(births) + 1) * epochs.window_steps / per_epoch)
        # Of an epoch's windows one may leave something, or each.
        count = max(1, min(count, spanned, epochs.ended + 1))
    return finding._replace(bytes_per_epoch=rate, epochs=count), per_step


def of_let_go(finding: Finding, per_step: float | None, ends: list[Held]) -> tuple[Finding, float | None]:
    """A finding of all that its line kept until it was let go, and its bytes per step.

    Args:
        ends: What the line held as the program's latest epochs ended.
    """
    rate = median_slope([end.bytes for end in ends])
    # The library has judged all of it, or nothing is known of the rest.
    if not is_less(finding.bytes_per_epoch, rate):
        return finding, per_step
    per_step = per_step and per_step * rate / finding.bytes_per_epoch
    last = ends[-1]
    return finding._replace(bytes=last.bytes, blocks=last.blocks, epochs=len(ends), bytes_per_epoch=rate), per_step
