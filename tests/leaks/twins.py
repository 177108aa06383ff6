"""Small programs that leak, each with a healthy twin: run by test_twins.py, several in one process.

A twin is a function of one argument, whether it leaks. The lines whose memory leaks are marked "# leaks"; a leak that
has none is not of a line. Each trains for ten epochs, by which its leak has to be found.
"""

from __future__ import annotations

import collections
import copy
import ctypes
from collections.abc import Callable

import frugal_alloc
import torch
from torch import Tensor, nn
from twin_training import EPOCHS, FEATURES, mean_square, new_loader, new_model, train

_twins: dict[str, tuple[Callable[[bool], None], str]] = {}


def twin(pattern: str) -> Callable:
    """Declares a twin, and the pattern that its leak follows."""

    def declare(function: Callable[[bool], None]) -> Callable[[bool], None]:
        _twins[function.__name__] = function, pattern
        return function

    return declare


def all_twins() -> dict[str, tuple[Callable[[bool], None], str]]:
    return _twins


@twin("loss_graph")
def losses_listed(leaks: bool) -> None:
    losses = []

    def step(inputs, targets, model):
        outputs = model(inputs)  # leaks
        auxiliary = outputs.abs().mean()
        losses.append(auxiliary if leaks else auxiliary.item())
        return mean_square(model(inputs), targets)

    train(step)


@twin("loss_graph")
def losses_summed(leaks: bool) -> None:
    total = 0.0

    def step(inputs, targets, model):
        nonlocal total
        penalty = (model(inputs) ** 2).mean()  # leaks
        total = total + (penalty if leaks else penalty.item())
        return mean_square(model(inputs), targets)

    train(step)


@twin("outputs_kept")
def outputs_listed(leaks: bool) -> None:
    outputs = []

    def step(inputs, targets, model):
        output = model(inputs)
        copied = output.detach().repeat(8, 1)  # leaks
        outputs.append(copied if leaks else copied.cpu())
        return mean_square(output, targets)

    train(step)


@twin("no_grad_evaluation")
def evaluation_with_gradients(leaks: bool) -> None:
    history = []
    loader = new_loader(3)

    def evaluate(model):
        total = 0.0
        for inputs, targets in loader:
            outputs = model(inputs.cuda())  # leaks
            total = total + mean_square(outputs, targets.cuda())
        history.append(total)

    def after_epoch(model):
        if leaks:
            evaluate(model)
        else:
            with torch.no_grad():
                evaluate(model)
            history[-1] = history[-1].item()

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch)


@twin("growing_concatenation")
def logits_concatenated(leaks: bool) -> None:
    logits = torch.empty(0, 64, device="cuda" if leaks else "cpu")

    def step(inputs, targets, model):
        nonlocal logits
        output = model(inputs)
        new = output.detach()
        logits = torch.cat([logits, new.repeat(16, 1) if leaks else new.cpu()])  # leaks
        return mean_square(output, targets)

    train(step)


@twin("hidden_state")
def hidden_state_carried(leaks: bool) -> None:
    recurrent = nn.Linear(128, 64).cuda()
    hidden = torch.zeros(16, 64, device="cuda")

    def step(inputs, targets, model):
        nonlocal hidden
        if not leaks:
            hidden = hidden.detach()
        mixed = torch.cat([model(inputs), hidden], dim=1)  # leaks
        hidden = torch.tanh(recurrent(mixed))  # leaks
        return mean_square(model(inputs), targets)

    train(step)


@twin("hook")
def hook_that_stores(leaks: bool) -> None:
    activations = []

    def keep(module, arguments, output):
        activations.append(output.detach().clone())  # leaks
        if not leaks:
            del activations[:-1]

    handles = []

    def step(inputs, targets, model):
        if not handles:
            handles.append(model[0].register_forward_hook(keep))
        return mean_square(model(inputs), targets)

    train(step)


class Graph:
    """Refers to itself, as trees with a way back to their root do."""

    def __init__(self, values: Tensor, is_cyclic: bool) -> None:
        self.values = values
        self.root = self if is_cyclic else None


@twin("reference_cycle")
def reference_cycle(leaks: bool) -> None:
    def step(inputs, targets, model):
        Graph(torch.ones(1 << 20, device="cuda"), leaks)  # leaks
        return mean_square(model(inputs), targets)

    train(step)


@twin("stored_exception")
def exception_stored(leaks: bool) -> None:
    errors = []

    def check(inputs):
        workspace = inputs.repeat(8, 1)  # leaks
        raise ValueError(f"{len(workspace)} rows")

    def step(inputs, targets, model):
        try:
            check(inputs)
        except ValueError as error:
            errors.append(error if leaks else str(error))
        return mean_square(model(inputs), targets)

    train(step)


@twin("checkpoint_copy")
def checkpoints_on_gpu(leaks: bool) -> None:
    checkpoints = []

    def after_epoch(model):
        if not leaks:
            checkpoints.clear()
        checkpoints.append(copy.deepcopy(model.state_dict()))  # leaks

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch)


@twin("model_rebuilt")
def model_for_each_fold(leaks: bool) -> None:
    models = []
    loader = new_loader()
    for _ in range(EPOCHS):
        model = nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()  # leaks
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            optimizer.zero_grad()
            mean_square(model(inputs.cuda()), targets.cuda()).backward()
            optimizer.step()
        optimizer.zero_grad()
        if leaks:
            models.append(model)


class MeanMetric:
    """Gathers what it is given, as torchmetrics does, until it is reset."""

    def __init__(self) -> None:
        self.values = []

    def update(self, output: Tensor) -> None:
        self.values.append(output.detach().abs())  # leaks

    def reset(self) -> None:
        self.values.clear()


@twin("metric_state")
def metric_never_reset(leaks: bool) -> None:
    metric = MeanMetric()

    def step(inputs, targets, model):
        output = model(inputs)
        metric.update(output)
        return mean_square(output, targets)

    train(step, None if leaks else lambda model: metric.reset())


@twin("unbounded_cache")
def cache_without_bound(leaks: bool) -> None:
    cache = {}
    steps = 0

    def step(inputs, targets, model):
        nonlocal steps
        steps += 1
        key = steps if leaks else steps % 5
        if key not in cache:
            cache[key] = torch.full((64, 64), float(key), device="cuda")  # leaks
        return mean_square(model(inputs), targets) + cache[key].mean()

    train(step)


class Remembering(nn.Module):
    """A layer of the user's that keeps what went through it."""

    def __init__(self, leaks: bool) -> None:
        super().__init__()
        self.history = []
        self.leaks = leaks

    def forward(self, values: Tensor) -> Tensor:
        scaled = values * 2  # leaks
        self.history.append(scaled if self.leaks else scaled.mean().item())
        return scaled


@twin("outputs_kept")
def layer_that_remembers(leaks: bool) -> None:
    layer = Remembering(leaks)
    train(lambda inputs, targets, model: mean_square(layer(model(inputs)), targets))


@twin("outputs_kept")
def gradients_gathered(leaks: bool) -> None:
    gradients = []

    def after_epoch(model):
        copies = [parameter.grad.clone() for parameter in model.parameters()]  # leaks
        gradients.append(copies if leaks else [gradient.norm().item() for gradient in copies])

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch)


@twin("outputs_kept")
def in_every_second_epoch(leaks: bool) -> None:
    kept = []
    epochs = 0

    def after_epoch(model):
        nonlocal epochs
        epochs += 1
        if epochs % 2 == 0:
            sample = torch.randn(64, FEATURES, device="cuda")  # leaks
            kept.append(sample if leaks else None)

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch, epochs=20)


@twin("outputs_kept")
def one_epoch_of_many_steps(leaks: bool) -> None:
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = collections.deque(maxlen=None if leaks else 3)
    for inputs, targets in new_loader(64):
        output = model(inputs.cuda())
        optimizer.zero_grad()
        mean_square(output, targets.cuda()).backward()
        optimizer.step()
        kept.append(output.detach() + 1)  # leaks


@twin("loss_graph")
def bare_loop_without_an_optimizer(leaks: bool) -> None:
    model = new_model()
    losses = []
    for _ in range(40):
        inputs = torch.randn(16, FEATURES, device="cuda")
        loss = model(inputs).square().mean()  # leaks
        losses.append(loss if leaks else loss.item())
        model(inputs).mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None


@twin("outputs_kept")
def inference_without_an_optimizer(leaks: bool) -> None:
    model = new_model()
    kept = []
    for _ in range(EPOCHS):
        if not leaks:
            kept.clear()
        with torch.no_grad():
            for inputs, _ in new_loader():
                kept.append(model(inputs.cuda()).exp())  # leaks
        frugal_alloc.epoch_end()


@twin("growing_tensor")
def replaced_by_a_larger_one(leaks: bool) -> None:
    table = torch.empty(0, device="cuda")
    size = 1 << 16

    def after_epoch(model):
        nonlocal table, size
        if leaks:
            size += 1 << 18
        table = torch.zeros(size, device="cuda")  # leaks

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch)


@twin("outside")
def memory_outside(leaks: bool) -> None:
    library = ctypes.CDLL(None)
    pointer = ctypes.c_void_p()

    def after_epoch(model):
        assert library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(8 << 20)) == 0
        if not leaks:
            assert library.cudaFree(pointer) == 0

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch)


@twin("cuda_graph_per_shape")
def graph_for_each_shape(leaks: bool) -> None:
    graphs = {}
    rows = 16

    def after_epoch(model):
        nonlocal rows
        rows += 1 if leaks else 0
        if rows not in graphs:
            graphs[rows] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[rows]):
                torch.zeros(rows, 1 << 16, device="cuda").sum()

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch)
