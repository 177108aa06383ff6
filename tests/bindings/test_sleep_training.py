"""Training with sleeps gives what training without gives; and what it shows if a tag lies."""

from __future__ import annotations

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB
from sleep_helpers import is_whole, name, nothing_sleeps_afterwards, numbers, tagged
from torch import nn

__all__ = ["name", "nothing_sleeps_afterwards"]  # fixtures


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(256, 2048), nn.Linear(2048, 256)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(inputs)))


def train(name: str, with_sleep: bool, check: str | None = None) -> list[torch.Tensor]:
    """Server and trainer share the GPU by turns; returns tokens, losses and the weights."""
    torch.manual_seed(0)

    def sleep(*tags: str, drop: tuple[str, ...] = ()) -> None:
        if with_sleep:
            frugal_alloc.sleep(tags, drop=drop, check=check)

    def wake(*tags: str) -> None:
        if with_sleep:
            frugal_alloc.wake(tags)

    server, trainer, optimizer_tag, cache_tag = (f"{part} {name}" for part in ("server", "trainer", "adam", "cache"))
    with frugal_alloc.tag(trainer):
        policy = Policy().cuda()
    with frugal_alloc.tag(server):
        serving = Policy().cuda()
    with frugal_alloc.tag(cache_tag):
        cache = torch.zeros(64, 256, 256, device="cuda")
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    told = []
    for step in range(4):
        serving.load_state_dict(policy.state_dict())
        sleep(trainer, optimizer_tag)
        cache.zero_()
        with torch.no_grad():
            for position in range(3):
                cache[position] = serving(cache[position - 1] + position + step)
            tokens = cache[:3].argmax(-1)
        told.append(tokens.cpu())
        sleep(server, cache_tag, drop=(cache_tag,))
        wake(trainer, optimizer_tag)
        with frugal_alloc.tag(optimizer_tag):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(policy(torch.ones(3, 256, 256, device="cuda")), tokens)
            loss.backward()
            optimizer.step()
        told.append(loss.detach().cpu())
        wake(server, cache_tag)
    return [*told, *(parameter.detach().cpu() for parameter in policy.parameters())]


@pytest.mark.parametrize("check", [None, "poison"])
def test_training_with_sleeps_is_training_without_bit_by_bit(name, check):
    without, with_sleeps = train(name, False), train(name, True, check)
    assert all(torch.equal(one, other) for one, other in zip(without, with_sleeps, strict=True))
    assert all(one.isfinite().all() for one in without)


# --- A tag that lies


def test_what_slept_before_is_dropped_and_poisoned_too(name):
    with frugal_alloc.tag(name):
        floats = torch.ones(2 * MIB, device="cuda")
    frugal_alloc.sleep(name)
    frugal_alloc.sleep(name, drop=name, check="poison")
    frugal_alloc.wake()
    assert floats.isnan().all()


def test_what_was_dropped_is_nan_where_it_is_poisoned(name):
    with frugal_alloc.tag(name):
        floats, whole = torch.ones(MIB, device="cuda"), numbers(8 * MIB)
        halves = torch.ones(2 * MIB, dtype=torch.bfloat16, device="cuda")
    kept = tagged(f"kept {name}")
    frugal_alloc.sleep([name, f"kept {name}"], drop=name, check="poison")
    frugal_alloc.wake()
    assert floats.isnan().all() and halves.isnan().all()
    assert (whole.cpu() == whole[0].cpu()).all() and not is_whole(whole) and is_whole(kept)


def test_a_constant_among_what_is_dropped_shows_in_the_loss(name):
    with frugal_alloc.tag(name):
        cache = torch.zeros(MIB, device="cuda")
        scale = torch.full((MIB,), 0.5, device="cuda")  # is no part of the cache
    frugal_alloc.sleep(name, drop=name, check="poison")
    frugal_alloc.wake()
    cache.zero_()
    assert ((cache + 1) * scale).mean().isnan()
