"""Programs whose leak is held by what is PyTorch's: modules, parameters, hooks, autograd's graphs and contexts."""

from __future__ import annotations

import gc

import torch
from held_programs import FEATURES, held_by, train
from torch import Tensor, nn


class Recording(nn.Module):
    history: list[Tensor] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, FEATURES)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs)
        self.history.append(outputs)
        return outputs


@held_by("list 'history' of class Recording", pattern="outputs_kept")
def attribute_of_a_modules_class():
    train(lambda inputs, model: None, Recording().cuda())


@held_by("list 'activations'", pattern="hook")
def forward_hook_that_stores():
    model = nn.Linear(FEATURES, FEATURES).cuda()
    activations = []

    def keep(module, arguments, output):
        activations.append(output.detach().clone())

    model.register_forward_hook(keep)
    train(lambda inputs, model: None, model)


@held_by("forward hooks of Linear 'net'", "tensor 'large' in the closure of <lambda>()", "hooks_added")
def forward_hooks_added_each_step():
    net = nn.Linear(FEATURES, FEATURES).cuda()

    def step(inputs, model):
        large = inputs.repeat(16, 1)
        model.register_forward_hook(lambda *_: None if large.numel() else 0)

    train(step, net)


@held_by("backward hooks of Parameter 'weight'", "tensor 'large' in the closure of <lambda>()", "hooks_added")
def tensor_hooks_added_each_step():
    weight = nn.Parameter(torch.ones(FEATURES, FEATURES, device="cuda"))

    def step(inputs, model):
        large = inputs.repeat(16, 1)
        weight.register_hook(lambda gradient: gradient + 0 * large.sum())

    train(step)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        ctx.y = values * 2
        return ctx.y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@held_by("ctx.y of Doubled", pattern="context_attribute")
def result_on_a_context():
    gc.disable()  # which would find the cycle, some time
    try:
        train(lambda inputs, model: Doubled.apply(model(inputs)).square().mean())
    finally:
        gc.enable()


class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        ctx.gate = torch.sigmoid(values)
        return values * ctx.gate

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.gate


@held_by("list 'results'", "ctx.gate of Gated", "outputs_kept")
def results_whose_context_keeps_more():
    results = []

    def step(inputs, model):
        results.append(Gated.apply(model(inputs)))

    train(step)


@held_by("list 'losses'", pattern="loss_graph")
def losses_with_graphs():
    losses = []

    def step(inputs, model):
        losses.append(model(inputs).square().mean())

    train(step)


@held_by("list 'losses'", pattern="loss_graph")
def losses_on_the_host_with_graphs():
    losses = []

    def step(inputs, model):
        losses.append(model(inputs).square().mean().cpu())

    train(step)


@held_by("tensor 'total'", pattern="loss_graph")
def running_total():
    total = 0.0

    def step(inputs, model):
        nonlocal total
        total = total + model(inputs).square().mean()

    train(step)


@held_by("tensor 'hidden'", pattern="hidden_state")
def hidden_state():
    hidden = torch.zeros(8, FEATURES, device="cuda")

    def step(inputs, model):
        nonlocal hidden
        hidden = torch.tanh(model(hidden))

    train(step)


@held_by("list 'copies'", "parameter 'weight' of Linear")
def copies_of_models():
    copies = []

    def step(inputs, model):
        copies.append(nn.Sequential(nn.Linear(FEATURES, FEATURES, bias=False)).cuda())

    train(step)


shared = torch.ones(FEATURES, FEATURES, device="cuda")


@held_by("list 'ensemble'", "parameter 'weight' of Linear", "model_rebuilt")
def gradients_of_kept_parameters():
    ensemble = []

    def step(inputs, model):
        member = nn.Linear(FEATURES, FEATURES, bias=False)
        # Its values were there before: what leaks is the gradient.
        member.weight = nn.Parameter(shared)
        ensemble.append(member)
        return member(inputs).sum() + model(inputs).sum()

    train(step)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, FEATURES)
        self.history: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs)
        self.history.append(outputs.detach() * 2)
        return outputs


@held_by("list 'history' of Remembering")
def list_of_each_layer():
    model = nn.Sequential(*(Remembering() for _ in range(6))).cuda()
    train(lambda inputs, model: None, model)
