"""What the program is not known to hold stays awake: libraries' workspaces, and what C++ alone has."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, simulated_gpu
from frugal_alloc._sleep.sleeping import Slept
from sleep_helpers import is_whole, name, nothing_sleeps_afterwards, sleeps, tagged, workspaces
from torch import nn

__all__ = ["name", "nothing_sleeps_afterwards"]  # fixtures
NO_OWNER = "no Python object holds it"


def unowned(slept: Slept, name: str) -> int:
    return sum(row.bytes for row in slept.stayed if row.why == NO_OWNER and row.tag == name)


def product(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.ones(8, model.in_features, device="cuda"))


def awake_and_asleep(name: str) -> tuple[nn.Module, nn.Module]:
    """Two models; the second one's tag has the first product of the stream, in which PyTorch takes the workspaces."""
    with frugal_alloc.tag(f"generator {name}"):
        generator = nn.Linear(256, 256, device="cuda")
    with frugal_alloc.tag(name):
        trainer = nn.Linear(1024, 1024, device="cuda")
        trainer(torch.ones(8, 1024, device="cuda")).sum().backward()
    return generator, trainer


CHOICES: dict[str, Callable[[str], Slept]] = {
    "by its tag": lambda name: frugal_alloc.sleep(name),
    "by what is kept": lambda name: frugal_alloc.sleep(keep=f"generator {name}"),
}


@simulated_gpu
@pytest.mark.parametrize("choice", CHOICES)
def test_no_product_of_what_is_awake_works_in_memory_that_sleeps(name, choice):
    generator, trainer = awake_and_asleep(name)
    slept = CHOICES[choice](name)
    assert sleeps(trainer.weight) and sleeps(trainer.weight.grad) and slept.tags[name] >= 8 * MIB
    workspaces.given.clear()
    product(generator)
    torch.cuda.synchronize()
    assert workspaces.given, "each was written to"
    frugal_alloc.wake()
    product(trainer)


@simulated_gpu
def test_what_a_graph_was_captured_with_stays_as_it_is(name):
    generator, trainer = awake_and_asleep(name)
    stream = torch.cuda.Stream()
    inputs = torch.ones(8, 256, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with frugal_alloc.tag(name), torch.cuda.stream(stream), torch.no_grad():
        generator(inputs)  # the graph gets this stream's workspace, which is no pool's
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            generator(inputs)
    held = set(workspaces.given)
    slept = frugal_alloc.sleep(name)
    assert unowned(slept, name) >= 8 * MIB, "the workspaces"
    assert f"{NO_OWNER}" in str(slept) and sleeps(trainer.weight)
    others = [torch.empty(MIB, dtype=torch.uint8, device="cuda") for _ in range(64)]
    assert not held & {tensor.data_ptr() for tensor in others}, "a replay would overwrite it"
    graph.replay()
    torch.cuda.synchronize()
    del graph
    gc.collect()


class Keeps(torch.autograd.Function):
    """Keeps a tensor where autograd alone has it."""

    @staticmethod
    def forward(context, values):
        context.save_for_backward(values.exp())
        return values * 1

    @staticmethod
    def backward(context, gradient):
        return gradient * context.saved_tensors[0]


def test_what_a_graph_of_autograds_has_saved_sleeps_and_is_told_of(name):
    weight = torch.zeros(2 * MIB, device="cuda", requires_grad=True)
    with frugal_alloc.tag(name):
        loss = Keeps.apply(weight).sum()
    slept = frugal_alloc.sleep(name)
    assert slept.slept_bytes >= 8 * MIB and unowned(slept, name) == 0
    with pytest.raises(RuntimeError, match="this tensor sleeps"):
        loss.backward(retain_graph=True)
    frugal_alloc.wake()
    loss.backward()
    assert weight.grad.min() == weight.grad.max() == 1


def test_what_cplusplus_alone_holds_stays_with_its_bytes_and_line(name):
    with frugal_alloc.tag(name):
        held = torch.cuda.caching_allocator_alloc(8 * MIB)
    try:
        slept = frugal_alloc.sleep(name)
        assert slept.slept_bytes == 0 and unowned(slept, name) == 8 * MIB
        (row,) = [row for row in slept.stayed if row.why == NO_OWNER and row.tag == name]
        assert "test_sleep_owners.py:" in row.line
    finally:
        torch.cuda.caching_allocator_delete(held)


@pytest.fixture
def frozen() -> Iterator[Callable[[], None]]:
    yield gc.freeze
    gc.unfreeze()


HELD_BY_A_MODULE: list[torch.Tensor] = []


def test_what_the_collector_was_told_to_leave_alone_sleeps_too(name, frozen):
    local = tagged(name)
    HELD_BY_A_MODULE.append(tagged(name))
    frozen()
    assert frugal_alloc.sleep(name).slept_bytes == 16 * MIB
    assert sleeps(local) and sleeps(HELD_BY_A_MODULE[0])
    frugal_alloc.wake()
    assert is_whole(local) and is_whole(HELD_BY_A_MODULE.pop())
