"""Plausible answers where values are not computed. Runs on the simulated GPU."""

from __future__ import annotations

import math

import pytest
import torch

DEVICE = "cuda"


def mask(n: int) -> torch.Tensor:
    """Whose values nobody has computed."""
    return torch.empty(n, dtype=torch.bool, device=DEVICE)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000, 123_457])
def test_between_a_quarter_and_three_quarters_are_selected_but_at_least_one(n: int) -> None:
    selected = mask(n).nonzero().shape[0]
    assert max(1, math.floor(n / 4)) <= selected <= max(1, math.ceil(n * 3 / 4))


def test_of_nothing_nothing_is_selected() -> None:
    assert mask(0).nonzero().shape == (0, 1)


def test_selections_by_the_same_mask_are_equally_large() -> None:
    chosen, first, second = mask(1000), torch.ones(1000, device=DEVICE), torch.ones(1000, 3, device=DEVICE)
    size = first[chosen].shape[0]
    assert second[chosen].shape == (size, 3)
    assert torch.masked_select(first, chosen).shape == (size,)
    assert torch.where(chosen)[0].shape == (size,)
    first[chosen] = first[chosen] * 2


def test_selected_indices_are_valid() -> None:
    indices = torch.empty(4, 5, 6, device=DEVICE).nonzero()
    assert indices.shape[1] == 3
    assert indices.cpu().eq(0).numpy().all()


def test_selection_can_be_differentiated() -> None:
    values = torch.ones(100, device=DEVICE, requires_grad=True)
    values[mask(100)].sum().backward()
    assert values.grad.shape == (100,)


def test_unique_gives_shapes_that_fit_together() -> None:
    rows = torch.zeros(10, 7, device=DEVICE)
    kept, inverse, counts = torch.unique(rows, return_inverse=True, return_counts=True)
    assert (kept.dim(), inverse.shape, counts.shape) == (1, rows.shape, kept.shape)
    kept, inverse, counts = torch.unique(rows, return_inverse=True, return_counts=True, dim=-1)
    assert (kept.shape, inverse.shape) == ((10, counts.shape[0]), (7,))
    assert torch.unique_consecutive(rows[0]).dim() == 1


@pytest.mark.parametrize(("dim", "shape"), [(None, ()), (0, (5, 6)), (-1, (4, 5)), ((0, 2), (5,))])
def test_checks_succeed(dim: int | tuple | None, shape: tuple) -> None:
    values = torch.ones(4, 5, 6, device=DEVICE)
    options = {} if dim is None else {"dim": dim}
    broken, fine = values.isnan().any(**options), values.isfinite().all(**options)
    assert broken.shape == fine.shape == shape
    assert not broken.cpu().numpy().any()
    assert fine.cpu().numpy().all()


def test_item_is_finite_or_what_was_stored() -> None:
    for stored in (5, True, 1 + 2j, -2.5):
        assert torch.tensor(stored, device=DEVICE).item() == stored
    for stored in (math.nan, math.inf):
        assert torch.tensor(stored, device=DEVICE).item() == 0


def test_tensor_can_be_printed() -> None:
    assert repr(torch.ones(3, device=DEVICE)) == "tensor([1., 1., 1.], device='cuda:0')"


def test_nms_keeps_some_boxes() -> None:
    ops = pytest.importorskip("torchvision").ops
    kept = ops.nms(torch.zeros(1000, 4, device=DEVICE), torch.zeros(1000, device=DEVICE), 0.5)
    assert kept.dtype == torch.long
    assert 250 <= kept.shape[0] <= 750


def test_answers_are_no_part_of_what_is_compiled() -> None:
    compiled: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        compiled.append(graph)
        return graph

    @torch.compile(backend=backend)
    def program(values: torch.Tensor) -> torch.Tensor:
        doubled = values * 2
        return doubled + 1 if doubled.sum() > 0 else doubled - 1

    program(torch.ones(4, device=DEVICE))
    assert len(compiled) == 2  # what comes before the question, and after it
