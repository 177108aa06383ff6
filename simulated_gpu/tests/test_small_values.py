"""Where values are not computed, small integers and booleans are, and other answers are plausible. Runs on the
simulated GPU."""

from __future__ import annotations

import contextlib
import gc
import math

import pytest
import torch
from simulated_gpu.values import mode, plausible
from torch import nn

DEVICE = "cuda"


@pytest.fixture
def large() -> torch.Tensor:
    """Floating-point numbers that nobody has computed, too many to be."""
    return torch.randn(600, 700).to(DEVICE) @ torch.randn(700, 800).to(DEVICE)


def test_an_operator_that_this_pytorch_lacks_gets_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plausible._ANSWERS, "any.of_another_version", plausible._ANSWERS["any"])
    functions = plausible._functions()
    assert {"any", "all.dims"} < set(functions) and "any.of_another_version" not in functions


def test_size_that_comes_from_the_largest_index_is_right() -> None:
    batch = torch.tensor([0, 0, 1, 2], device=DEVICE)
    assert torch.zeros(batch.max() + 1, device=DEVICE).shape == (3,)
    assert torch.bincount(batch).tolist() == [2, 1, 1]


def test_lengths_of_padded_sequences_are_right() -> None:
    padded = torch.tensor([[3, 5, 7, 0], [1, 2, 0, 0]]).to(DEVICE)
    lengths = (padded != 0).sum(1)
    assert lengths.tolist() == [3, 2]
    assert (torch.arange(3, device=DEVICE) < lengths[:, None]).tolist() == [[True] * 3, [True, True, False]]
    assert lengths.float().mean().item() == 2.5


def test_selection_by_a_computed_mask_is_exact() -> None:
    numbers = torch.arange(6, device=DEVICE)
    assert numbers[numbers > 2].tolist() == [3, 4, 5]
    assert (numbers > 9).nonzero().shape == (0, 1)
    assert torch.unique(numbers % 2).tolist() == [0, 1]


def test_checks_of_computed_values_say_what_is_so() -> None:
    mask = torch.zeros(4, dtype=torch.bool, device=DEVICE)
    assert not mask.any()
    mask[1] = True
    assert mask.any()
    assert not mask.all()


def test_numbers_that_nobody_computed_are_finite(large: torch.Tensor) -> None:
    assert not torch.isnan(large).any()
    assert not torch.isnan(large.mean())
    assert torch.isfinite(large).all()
    assert math.isfinite(math.exp(large.mean().item()))
    assert 0 < large.mean().item() < 1


def test_numbers_that_nobody_computed_are_equal(large: torch.Tensor) -> None:
    assert torch.allclose(large.mean(1), large.mean(1) + 0)


def test_choices_among_numbers_that_nobody_computed_are_valid_and_differ(large: torch.Tensor) -> None:
    best = large.argmax(1)
    assert 0 <= best.min().item() < best.max().item() < 800
    assert large.topk(3).indices.shape == (600, 3)
    drawn = torch.multinomial(large.softmax(1), 2)
    assert 0 <= drawn.min().item() <= drawn.max().item() < 800


def test_large_integers_that_nobody_computed_are_zero() -> None:
    many = torch.zeros(1 << 18, dtype=torch.long, device=DEVICE) + 7
    assert (many.max().item(), many[5].item()) == (0, 0)


def test_programs_own_random_numbers_go_on_as_without() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert sorted(torch.randperm(5, device=DEVICE).tolist()) == [0, 1, 2, 3, 4]
    assert torch.equal(torch.rand(3), expected)


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20_000, 64)
        self.head = nn.Linear(64, 20_000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens))


@pytest.mark.parametrize("sample", [False, True])
def test_generation_ends_at_its_length(sample: bool) -> None:
    end, most = 2, 20
    model, tokens = LanguageModel().to(DEVICE), torch.randint(3, 20_000, (3, 5)).to(DEVICE)
    unfinished = torch.ones(3, dtype=torch.long, device=DEVICE)
    for _ in range(100):
        logits = model(tokens)[:, -1]
        chosen = torch.multinomial(logits.softmax(-1), 1)[:, 0] if sample else logits.argmax(-1)
        chosen = chosen * unfinished
        tokens = torch.cat([tokens, chosen[:, None]], 1)
        done = torch.isin(chosen, torch.tensor([end], device=DEVICE)) | (tokens.shape[1] >= most)
        unfinished = unfinished & ~done
        if unfinished.max() == 0:
            break
    assert 6 <= tokens.shape[1] <= most


def test_scaler_finds_no_overflow() -> None:
    model = nn.Linear(512, 512).to(DEVICE)
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.randn(4, 512, device=DEVICE)).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 65536


def test_operators_that_return_nothing_write_their_lists_of_tensors() -> None:
    counts = [torch.tensor(0.0, device=DEVICE), torch.zeros((), device=DEVICE)]
    torch._foreach_add_(counts, 1)
    assert [count.item() for count in counts] == [1, 1]
    large = [torch.zeros(1 << 20, device=DEVICE)]
    torch._foreach_add_([*large, counts[0]], 1)
    assert counts[0].item() == 1, "beside large ones nothing is computed"


def test_optimizer_counts_its_steps_where_new_tensors_are_the_gpus_by_default() -> None:
    with torch.device(DEVICE):
        model = nn.Linear(8, 8)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    assert optimizer.state[model.weight]["step"].item() == 3


def test_library_may_have_torch_make_its_tensors_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    make = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, **options: make(*size, **options | {"device": DEVICE}))
    assert (torch.arange(3, device=DEVICE) + 1).tolist() == [1, 2, 3]


def test_ctc_loss_takes_lengths_on_the_host() -> None:
    inputs = torch.randn(20, 2, 6, device=DEVICE).log_softmax(2).requires_grad_()
    targets, lengths = torch.ones(2, 5, dtype=torch.long, device=DEVICE), torch.tensor([5, 4])
    torch.nn.functional.ctc_loss(inputs, targets, torch.tensor([20, 18]), lengths).backward()
    assert inputs.grad.shape == inputs.shape


def test_memory_of_a_function_goes_as_it_ends_where_an_operator_cannot_be_computed() -> None:
    def attend() -> torch.Tensor:
        query = torch.zeros(1, 2, 4, 8, device=DEVICE)
        # This one has no values on the CPU.
        return torch.ops.aten._scaled_dot_product_efficient_attention(query, query, query, None, False)[0].sum()

    attend()
    before = torch.cuda.memory_allocated()
    gc.disable()
    try:
        attend()
        assert torch.cuda.memory_allocated() == before
    finally:
        gc.enable()


def test_thread_of_backward_passes_is_awaited_without_a_free_byte() -> None:
    kept = []
    for size in (256 << 20, 2 << 20, 512):
        with contextlib.suppress(torch.OutOfMemoryError):
            while True:
                kept.append(torch.empty(size, dtype=torch.uint8, device=DEVICE))
    mode._await_backward_thread()


# --- Plausible answers, of what is not computed.


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
