"""Values of operators that need more than their plain CPU form. Runs on the simulated GPU with ``--values cpu``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

DEVICE = "cuda"


def both(program: Callable[[str], torch.Tensor]) -> None:
    """The program gives the same on both devices."""
    results = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        result = program(device)
        results.append(result.to_dense().detach().cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-3)


def regular(device: str) -> torch.Tensor:
    half = torch.randn(5, 5, dtype=torch.double)
    return (half @ half.T + torch.eye(5, dtype=torch.double)).to(device)


@pytest.mark.parametrize(
    "routine",
    [
        torch.linalg.inv,
        torch.linalg.cholesky,
        torch.linalg.svdvals,
        torch.linalg.eigvalsh,
        torch.linalg.det,
        torch.linalg.pinv,
        lambda matrix: torch.linalg.eigvals(matrix).abs().sort()[0],
        lambda matrix: torch.linalg.qr(matrix)[1].abs(),
        lambda matrix: torch.linalg.solve(matrix, matrix[:, :2]),
        lambda matrix: torch.linalg.lstsq(matrix, matrix[:, :2]).solution,
        lambda matrix: torch.fft.irfft2(torch.fft.rfft2(matrix), s=(5, 5)),
    ],
)
def test_linear_algebra_is_right(routine: Callable) -> None:
    both(lambda device: routine(regular(device)))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_product_and_its_gradient_are_right(layout: torch.layout) -> None:
    def program(device: str) -> torch.Tensor:
        sparse = torch.eye(5, dtype=torch.double).to(device).to_sparse(layout=layout)
        weight = torch.randn(5, 2, dtype=torch.double).to(device).requires_grad_()
        (sparse @ weight).square().sum().backward()
        return weight.grad

    both(program)


def test_equal_indices_of_a_sparse_tensor_are_added() -> None:
    indices = torch.tensor([[0, 0, 1], [0, 0, 2]])
    both(lambda device: torch.sparse_coo_tensor(indices.to(device), torch.ones(3).to(device), (3, 3)).coalesce())


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.SparseAdam])
def test_sparse_gradients_train_an_embedding(optimizer: type) -> None:
    def program(device: str) -> torch.Tensor:
        embedding = nn.Embedding(10, 3, sparse=True).to(device)
        steps = optimizer(embedding.parameters(), 0.1)
        embedding(torch.tensor([1, 1, 4], device=device)).sum().backward()
        steps.step()
        return embedding.weight

    both(program)


@pytest.mark.parametrize("place", ["cpu", DEVICE])
def test_ctc_loss_is_right_wherever_its_lengths_lie(place: str) -> None:
    def program(device: str) -> torch.Tensor:
        inputs = torch.randn(20, 2, 6).log_softmax(2).to(device).requires_grad_()
        targets = torch.randint(1, 6, (2, 5)).to(device)
        lengths = [torch.tensor(of).to(device if place == DEVICE else "cpu") for of in ([20, 18], [5, 4])]
        F.ctc_loss(inputs, targets, *lengths).backward()
        return inputs.grad

    both(program)


def test_product_in_a_wider_type_is_right() -> None:
    half = torch.randn(4, 4).half()
    wide = torch.addmm(torch.ones(4, 4, device=DEVICE), half.to(DEVICE), half.to(DEVICE), out_dtype=torch.float)
    torch.testing.assert_close(wide.cpu(), half.float() @ half.float() + 1, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("compiled", [False, True])
def test_flexible_attention_and_its_gradient_are_right(compiled: bool) -> None:
    attention = torch.compile(flex_attention) if compiled else flex_attention
    query = torch.randn(1, 2, 128, 16)
    results = []
    for device, attend in (("cpu", F.scaled_dot_product_attention), (DEVICE, attention)):
        values = query.to(device, copy=True).requires_grad_()
        attend(values, values, values).square().sum().backward()
        results.append(values.grad.cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-3)
