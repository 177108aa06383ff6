"""Values that are computed on the CPU. Runs on the simulated GPU with ``--values cpu``."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda"


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def same(on_gpu: torch.Tensor, expected: torch.Tensor, **tolerance: float) -> None:
    torch.testing.assert_close(on_gpu.detach().cpu(), expected.detach(), **tolerance)


def test_elementwise_operators() -> None:
    values = torch.randn(50, 40)
    same(values.to(DEVICE).exp().sub(1).relu() * 2, values.exp().sub(1).relu() * 2)
    same(torch.where(values.to(DEVICE) > 0, 1.0, -1.0), torch.where(values > 0, 1.0, -1.0))
    same(torch.full((3,), 2.5, device=DEVICE) ** 2, torch.full((3,), 6.25))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64])
def test_matrix_product(dtype: torch.dtype) -> None:
    left, right = torch.randn(20, 30).mul(4).to(dtype), torch.randn(30, 10).mul(4).to(dtype)
    if dtype == torch.int64:  # matrix products of integers are for the CPU alone
        same(left.to(DEVICE) + 1, left + 1)
    else:
        same(left.to(DEVICE) @ right.to(DEVICE), left @ right)


def test_writing_in_place_happens_once() -> None:
    values = torch.ones(4, device=DEVICE)
    values += 1
    values.mul_(3).sub_(1).zero_().add_(2)
    values[1:3] += 5
    assert values.tolist() == [2, 7, 7, 2]


def test_output_arguments_and_lists_of_tensors() -> None:
    out = torch.zeros(3, device=DEVICE)
    torch.add(torch.ones(3, device=DEVICE), 2, out=out)
    assert out.tolist() == [3, 3, 3]
    lists = [torch.ones(2, device=DEVICE), torch.ones(3, device=DEVICE)]
    torch._foreach_mul_(lists, 4)
    assert [tensor.tolist() for tensor in lists] == [[4, 4], [4, 4, 4]]


def test_views_share_memory_with_what_they_view() -> None:
    base = torch.arange(12, device=DEVICE).view(3, 4)
    base.t()[1] = 0
    base[:, 2].fill_(9)
    assert base.tolist() == [[0, 0, 9, 3], [4, 0, 9, 7], [8, 0, 9, 11]]
    same(base.flip(0).permute(1, 0).contiguous(), base.cpu().flip(0).permute(1, 0))
    conjugate = torch.tensor([1 + 2j], device=DEVICE).conj()
    assert (conjugate * 1).tolist() == [1 - 2j]
    assert (conjugate.imag * 1).tolist() == [-2]


def test_copies_between_host_and_gpu() -> None:
    values = torch.randn(6, 5)
    same(values.t().to(DEVICE), values.t())
    same(values.to(DEVICE).t().cpu(), values.t())
    same(values.pin_memory().to(DEVICE, non_blocking=True).half(), values.half())


def test_shapes_that_depend_on_values() -> None:
    values = torch.tensor([3.0, 0.0, -1.0, 3.0])
    on_gpu = values.to(DEVICE)
    same(on_gpu.nonzero(), values.nonzero())
    same(on_gpu[on_gpu > 0], values[values > 0])
    same(torch.masked_select(on_gpu, on_gpu < 3), torch.masked_select(values, values < 3))
    same(torch.unique(on_gpu), torch.unique(values))
    same(torch.bincount(torch.tensor([1, 3], device=DEVICE)), torch.tensor([0, 1, 0, 1]))
    same(torch.repeat_interleave(on_gpu, torch.tensor([1, 0, 2, 0], device=DEVICE)), torch.tensor([3.0, -1, -1]))
    on_gpu[on_gpu > 2] = 7
    assert on_gpu.tolist() == [7, 0, -1, 7]
    assert (on_gpu > 0).sum().item() == 2
    assert not torch.equal(on_gpu, on_gpu + 1)


def network() -> nn.Sequential:
    convolution = [nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*convolution, nn.LayerNorm(8 * 5 * 5), nn.Linear(8 * 5 * 5, 10))


def test_backward_gives_the_cpus_gradients() -> None:
    model, images, labels = network(), torch.randn(6, 1, 12, 12), torch.randint(0, 10, (6,))
    F.cross_entropy(model(images), labels).backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    model.to(DEVICE)
    model[1].reset_running_stats()
    F.cross_entropy(model(images.to(DEVICE)), labels.to(DEVICE)).backward()
    for name, parameter in model.named_parameters():
        same(parameter.grad, expected[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_and_its_gradients(causal: bool) -> None:
    values = torch.randn(2, 4, 16, 8)
    results = []
    for device in ("cpu", DEVICE):
        query = values.to(device, copy=True).requires_grad_()
        output = F.scaled_dot_product_attention(query, query, query, is_causal=causal)
        output.square().sum().backward()
        results.append((output, query.grad))
    for expected, on_gpu in zip(*results, strict=True):
        same(on_gpu, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}])
def test_optimizer_steps_as_on_the_cpu(optimizer: str, options: dict) -> None:
    results = []
    for device in ("cpu", DEVICE):
        parameter = nn.Parameter(torch.linspace(-1, 1, 8).to(device))
        steps = getattr(torch.optim, optimizer)([parameter], lr=0.1, **options)
        for _ in range(3):
            parameter.square().sum().backward()
            steps.step()
            steps.zero_grad()
        results.append(parameter.detach().cpu())
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_loss_of_a_small_model_falls(dtype: torch.dtype | None) -> None:
    model = network().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    images, labels = torch.randn(16, 1, 12, 12, device=DEVICE), torch.randint(0, 10, (16,), device=DEVICE)
    losses = []
    for _ in range(8):
        with torch.autocast("cuda", dtype or torch.float32, enabled=dtype is not None):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses


def test_dropout_drops_and_scales() -> None:
    kept = F.dropout(torch.ones(10_000, device=DEVICE), 0.25)
    assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
    assert kept.mean().item() == pytest.approx(1, abs=0.05)


def test_graph_computes_at_each_replay_and_not_at_capture() -> None:
    total, addend = torch.zeros(3, device=DEVICE), torch.ones(3, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total += addend * 2
        result = total.clone()
    assert total.tolist() == [0, 0, 0]
    graph.replay()
    addend.fill_(10)
    graph.replay()
    assert total.tolist() == result.tolist() == [22, 22, 22]


def test_graphs_captured_in_turn_or_on_forked_streams_keep_their_own_operators() -> None:
    first, second = torch.zeros(2, device=DEVICE), torch.zeros(2, device=DEVICE)
    graphs = []
    for tensor in (first, second):
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(graph):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                tensor += 1
            torch.cuda.current_stream().wait_stream(side)
        graphs.append(graph)
    graphs[1].replay()
    graphs[1].replay()
    graphs[0].replay()
    assert (first.tolist(), second.tolist()) == ([1, 1], [2, 2])


def test_graphed_callable_trains() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).to(DEVICE)
    inputs = torch.randn(8, 4, device=DEVICE)
    expected = model(inputs).detach()
    graphed = torch.cuda.make_graphed_callables(model, (inputs,))
    output = graphed(inputs)
    same(output, expected.cpu())
    output.sum().backward()
    assert model[2].bias.grad.tolist() == [8]


def test_operators_of_other_threads_and_streams() -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append((torch.ones(3, device=DEVICE) * 2).sum().item()))
    thread.start()
    thread.join()
    assert results == [6]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tripled = torch.ones(3, device=DEVICE) * 3
    stream.synchronize()
    assert tripled.tolist() == [3, 3, 3]


def test_printing_shows_the_values() -> None:
    assert repr(torch.tensor([1.5, -2.0], device=DEVICE) * 2) == "tensor([ 3., -4.], device='cuda:0')"


def test_allocator_sees_what_it_would_see_without_values() -> None:
    values = torch.randn(512, 512, device=DEVICE)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    doubled = values * 2
    doubled += 1
    assert torch.cuda.memory_allocated() - before == doubled.nbytes
    assert torch.cuda.max_memory_allocated() - before == doubled.nbytes


def test_operator_without_cpu_implementation_is_named_once(capfd: pytest.CaptureFixture[str]) -> None:
    cell, inputs = nn.LSTMCell(3, 4).to(DEVICE), torch.ones(2, 3, device=DEVICE)
    cell(inputs)
    cell(inputs)
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if "the values of aten::_thnn_fused_lstm_cell are not computed" in line]) == 1


def test_computed_tensors_are_not_kept_alive() -> None:
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        values = torch.randn(1000, 1000, device=DEVICE)
        del values
    assert torch.cuda.memory_allocated() == before
