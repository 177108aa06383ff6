"""frugal_alloc.tag() and retag(): which memory has which tag."""

from __future__ import annotations

import dataclasses
import threading
from contextlib import nullcontext

import frugal_alloc
import torch
from binding_helpers import MIB
from sleep_helpers import is_whole, name, nothing_sleeps_afterwards, numbers, sleeps, tagged
from torch import nn

__all__ = ["name", "nothing_sleeps_afterwards"]  # fixtures


def test_the_innermost_tag_counts_and_a_decorated_function_has_its_own(name):
    @frugal_alloc.tag(f"inner {name}")
    def inner(depth: int) -> list[torch.Tensor]:
        return [numbers(2 * MIB), *(inner(depth - 1) if depth else [])]

    with frugal_alloc.tag(name):
        tensors = [numbers(8 * MIB), *inner(2), numbers(8 * MIB)]
    after = numbers(8 * MIB)
    assert frugal_alloc.sleep([name, f"inner {name}"]).tags == {name: 16 * MIB, f"inner {name}": 6 * MIB}
    assert not sleeps(after)
    frugal_alloc.wake()
    assert all(map(is_whole, tensors))


def test_a_tag_is_its_threads_alone(name):
    made = {}

    def make(key: str) -> None:
        with frugal_alloc.tag(f"{key} {name}") if key else nullcontext():
            made[key] = numbers(8 * MIB)

    with frugal_alloc.tag(name):
        threads = [threading.Thread(target=make, args=(key,)) for key in ("a", "b", "")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert frugal_alloc.sleep([f"a {name}"]).tags == {f"a {name}": 8 * MIB}
    assert {key: sleeps(tensor) for key, tensor in made.items()} == {"a": True, "b": False, "": False}


def test_gradients_that_a_backward_pass_makes_have_the_tag_around_it(name):
    model = nn.Linear(1024, 1024, bias=False, device="cuda")
    with frugal_alloc.tag(name):
        model(torch.ones(4, 1024, device="cuda")).sum().backward()
    gradient = model.weight.grad.cpu()
    frugal_alloc.sleep(name)
    assert sleeps(model.weight.grad) and not sleeps(model.weight)
    frugal_alloc.wake()
    assert torch.equal(model.weight.grad.cpu(), gradient)


@dataclasses.dataclass
class Batch:
    inputs: torch.Tensor
    name: str = "batch"


def test_owners_are_tagged_afterwards(name):
    model = nn.Linear(1024, 2048, device="cuda")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 1024, device="cuda")).sum().backward()
    optimizer.step()
    weights = 1024 * 2048 * 4 + 2048 * 4
    tree = {"batch": Batch(numbers(8 * MIB)), "list": [None, 3, (numbers(2 * MIB), torch.ones(3))]}
    tree["itself"] = tree
    assert frugal_alloc.retag(model, f"weights {name}") == weights
    # The counts of steps lie on the host.
    assert frugal_alloc.retag(optimizer, f"optimizer {name}") == 2 * weights
    assert frugal_alloc.retag(tree, f"tree {name}") == 10 * MIB
    slept = frugal_alloc.sleep([f"optimizer {name}", f"tree {name}"])
    assert slept.tags[f"tree {name}"] == 10 * MIB
    assert sleeps(optimizer.state[model.weight]["exp_avg"]) and sleeps(tree["batch"].inputs)
    assert not sleeps(model.weight) and not sleeps(model.weight.grad)


def test_the_last_tag_of_a_tensor_counts_also_where_it_sleeps(name):
    tensor = tagged(name)
    assert frugal_alloc.retag(tensor[5:], f"other {name}") == 8 * MIB
    assert frugal_alloc.sleep(name).slept_bytes == 0
    frugal_alloc.sleep(f"other {name}")
    frugal_alloc.retag(tensor, name)
    assert frugal_alloc.asleep() == {name: 8 * MIB}
    assert frugal_alloc.wake(name) == 8 * MIB and is_whole(tensor)


def test_memory_that_is_not_ours_gets_no_tag(name):
    frugal_alloc.disable()
    older = numbers(8 * MIB)
    frugal_alloc.enable()
    assert frugal_alloc.retag([older, torch.ones(3), torch.ones(3, device="meta")], name) == 0


def test_a_tag_that_nothing_has_yet_is_known(name):
    optimizer = torch.optim.Adam(nn.Linear(4, 4, device="cuda").parameters())
    assert frugal_alloc.retag(optimizer, name) == 0
    assert frugal_alloc.sleep(name).slept_bytes == 0 and frugal_alloc.wake(name) == 0
