"""What //bench:left_over prints."""

from __future__ import annotations

import statistics

from .. import markdown
from ..generators.recorder import GIB, MIB
from .plays import ALLOCATORS, Left

# Below the first a program is hard for ours; from the second on ours is as good as the better of the others.
HARD, AS_GOOD = 0.98, 0.995


def table(found: list[Left]) -> str:
    """A line for each program, the worst for ours first."""
    rows = [
        [
            one.name,
            f"{one.parameters['memory'] / GIB:g}",
            f"{one.parameters['last_size'] / MIB:.1f}",
            *(f"{size / MIB:,.0f}" for size in (one.free, *(getattr(one, who) for who in ALLOCATORS))),
            f"{one.ratio:.3f}",
            "" if one.cut_at is None else f"{one.cut_at:,}",
        ]
        for one in sorted(found, key=lambda one: one.ratio)
    ]
    head = ["program", "GPU, GiB", "size, MiB", "not in tensors, MiB", *ALLOCATORS, "ratio", "cut at"]
    return markdown.table(head, rows)


def summary(found: list[Left]) -> dict[str, int | float]:
    ratios = [one.ratio for one in found]
    return {
        "programs": len(ratios),
        "worst": min(ratios),
        "mean": statistics.fmean(ratios),
        f"below_{HARD}": sum(ratio < HARD for ratio in ratios),
        f"below_{AS_GOOD}": sum(ratio < AS_GOOD for ratio in ratios),
        "mean_part_of_free": statistics.fmean(one.ours / one.free for one in found),
    }


def summary_line(found: list[Left]) -> str:
    what = summary(found)
    return (
        f"{what['programs']} programs; ours / the better of native and expandable segments: worst {what['worst']:.3f}, "
        f"mean {what['mean']:.4f}; below {HARD}: {what[f'below_{HARD}']}, below {AS_GOOD}: "
        f"{what[f'below_{AS_GOOD}']}. Of what is not in tensors ours gets {100 * what['mean_part_of_free']:.2f} % on "
        "average.\n"
    )
