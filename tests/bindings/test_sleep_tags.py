"""frugal_alloc.tag() and retag(): which memory has which tag."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from contextlib import nullcontext

import frugal_alloc
import pytest
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


def tags_of(tensors: dict[str, torch.Tensor], tags: list[str]) -> dict[str, str]:
    """The tag of each tensor, by what sleeps with it."""
    found = dict.fromkeys(tensors, "")
    for tag in tags:
        frugal_alloc.sleep(tag)
        found.update({key: tag for key, tensor in tensors.items() if sleeps(tensor)})
        frugal_alloc.wake()
    return found


def test_a_tag_is_its_tasks_alone_across_each_await(name):
    made = {}

    async def task(tag: str, waits: int) -> None:
        with frugal_alloc.tag(tag):
            for turn in range(waits):
                await asyncio.sleep(0)
                made[f"{tag} {turn}"] = numbers(8 * MIB)

    async def without(waits: int) -> None:
        for turn in range(waits):
            await asyncio.sleep(0)
            made[f"without {turn}"] = numbers(8 * MIB)

    async def main() -> None:
        await asyncio.gather(task(f"a {name}", 1), task(f"b {name}", 3), without(4))

    asyncio.run(main())
    made["after"] = numbers(8 * MIB)
    tags = [f"a {name}", f"b {name}"]
    expected = {key: next((tag for tag in tags if key.startswith(tag)), "") for key in made}
    assert tags_of(made, tags) == expected


def test_what_a_task_starts_has_its_tag_until_the_block_is_left(name):
    made = {}

    async def main() -> None:
        left = asyncio.Event()

        async def child() -> None:
            made["within"] = numbers(8 * MIB)
            await left.wait()
            made["after"] = numbers(8 * MIB)

        with frugal_alloc.tag(f"outer {name}"):
            with frugal_alloc.tag(name):
                started = asyncio.create_task(child())
                await asyncio.sleep(0)
                made["thread"] = await asyncio.to_thread(numbers, 8 * MIB)
            left.set()
            await started

    asyncio.run(main())
    expected = {"within": name, "thread": name, "after": f"outer {name}"}
    assert tags_of(made, [name, f"outer {name}"]) == expected


def test_a_backward_pass_has_its_tasks_tag_and_not_the_latest_one(name):
    model = nn.Linear(1024, 1024, bias=False, device="cuda")

    async def trains() -> None:
        with frugal_alloc.tag(name):
            await asyncio.sleep(0)
            model(torch.ones(4, 1024, device="cuda")).sum().backward()

    async def other() -> None:
        with frugal_alloc.tag(f"other {name}"):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(trains(), other())

    asyncio.run(main())
    assert tags_of({"gradient": model.weight.grad}, [name, f"other {name}"]) == {"gradient": name}


def test_blocks_that_are_left_in_the_wrong_order_are_told_and_hold_no_more(name):
    first, second = frugal_alloc.tag(f"first {name}"), frugal_alloc.tag(f"second {name}")
    first.__enter__()
    second.__enter__()
    with pytest.raises(frugal_alloc.FrugalAllocError, match="reverse order") as wrong:
        first.__exit__(None, None, None)
    assert "\n" not in str(wrong.value)
    made = {"between": numbers(8 * MIB)}
    second.__exit__(None, None, None)
    made["after"] = numbers(8 * MIB)
    expected = {"between": f"second {name}", "after": ""}
    assert tags_of(made, [f"first {name}", f"second {name}"]) == expected


def test_a_block_that_another_thread_leaves_is_told_and_holds_no_more(name):
    tag, told = frugal_alloc.tag(name), []

    def leave() -> None:
        try:
            tag.__exit__(None, None, None)
        except frugal_alloc.FrugalAllocError as error:
            told.append(str(error))

    tag.__enter__()
    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert "another" in told[0]
    assert tags_of({"after": numbers(8 * MIB)}, [name]) == {"after": ""}


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
