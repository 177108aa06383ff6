"""How much sleep copies, gives back and holds, of programs that are drawn at random."""

from __future__ import annotations

import random

import frugal_alloc
import pytest
import torch
from binding_helpers import KIB, MIB
from sleep_helpers import name, nothing_sleeps_afterwards

__all__ = ["name", "nothing_sleeps_afterwards"]  # fixtures
PAGE = 2 * MIB


def rounded(tensor: torch.Tensor) -> int:
    """The block of a tensor, as it is handed out."""
    return -(-tensor.nbytes // 512) * 512


def drawn(seed: int, sizes: list[int], tags: list[str]) -> dict[str, list[torch.Tensor]]:
    """What is alive of each tag, where tensors of all sizes and tags came and went."""
    draw = random.Random(seed)
    alive: dict[str, list[torch.Tensor]] = {tag: [] for tag in tags}
    for _ in range(240):
        tag = draw.choice(tags)
        with frugal_alloc.tag(tag):
            # Runs of one tag, as a model's layers.
            size = draw.choice(sizes)
            alive[tag] += [
                torch.empty(draw.randrange(size // 2, size), dtype=torch.uint8, device="cuda") for _ in range(8)
            ]
        draw.shuffle(alive[tag])
        del alive[tag][draw.randrange(len(alive[tag])) :]
    return alive


def pages_of(tensors: list[torch.Tensor]) -> set[int]:
    return {
        page
        for tensor in tensors
        for page in range(tensor.data_ptr() // PAGE, (tensor.data_ptr() + rounded(tensor) - 1) // PAGE + 1)
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes", [[64 * KIB, MIB, 24 * MIB], [4 * MIB, 40 * MIB], [300 * KIB, 700 * KIB, 3 * MIB]])
def test_what_lives_is_copied_and_the_pages_that_it_has_alone_go_back(name, sizes, seed):
    alive = drawn(seed, sizes, [name, f"other {name}"])
    torch.cuda.empty_cache()
    mine, others = alive.values()
    live = sum(map(rounded, mine))
    alone = pages_of(mine) - pages_of(others)
    slept = frugal_alloc.sleep(name)
    assert slept.copied_bytes == slept.slept_bytes <= 1.001 * live
    assert slept.given_back_bytes >= 0.98 * len(alone) * PAGE
    # What shares a page is told.
    assert slept.slept_bytes + sum(each.bytes for each in slept.stayed) >= live
    assert {each.why for each in slept.stayed} <= {"shares a page with memory that stays awake"}
