"""Healthy programs that look like leaks: run by test_twins.py, in one process with the twins."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator

import frugal_alloc
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from twin_training import BATCHES, EPOCHS, FEATURES, mean_square, new_loader, new_model, train

_programs: dict[str, Callable[[], None]] = {}


def benign(function: Callable[[], None]) -> Callable[[], None]:
    """Declares a program of which no verdict may be given."""
    _programs[function.__name__] = function
    return function


def all_programs() -> dict[str, Callable[[], None]]:
    return _programs


@benign
def shapes_that_vary() -> None:
    generator = torch.Generator().manual_seed(3)
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(EPOCHS * BATCHES):
        rows = int(torch.randint(1, 200, (), generator=generator))
        inputs = torch.randn(rows, FEATURES).cuda()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


@benign
def evaluation_in_every_third_epoch() -> None:
    epochs = 0
    best = []

    def after_epoch(model):
        nonlocal epochs
        epochs += 1
        if epochs % 3 == 0:
            with torch.no_grad():
                best[:] = [model(inputs.cuda()) for inputs, _ in new_loader(2)]

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch)


@benign
def cache_that_is_declared() -> None:
    cache = {}

    def step(inputs, targets, model):
        with frugal_alloc.expect_growth("declared cache"):
            cache[len(cache)] = torch.zeros(64, 64, device="cuda")
        return mean_square(model(inputs), targets)

    train(step)


@functools.lru_cache(maxsize=6)
def positions(length: int) -> Tensor:
    return torch.arange(length, device="cuda", dtype=torch.float32)


@benign
def cache_that_is_bounded() -> None:
    generator = torch.Generator().manual_seed(5)

    def step(inputs, targets, model):
        length = int(torch.randint(1000, 1040, (), generator=generator))
        return mean_square(model(inputs), targets) + positions(length).mean()

    train(step)


@benign
def cache_that_fills_at_first() -> None:
    cache = {}
    steps = 0

    def step(inputs, targets, model):
        nonlocal steps
        key = min(steps, 3 * BATCHES)
        steps += 1
        if key not in cache:
            cache[key] = torch.zeros(64, 64, device="cuda")
        return mean_square(model(inputs), targets)

    train(step)


@benign
def best_model_kept() -> None:
    best = {}

    def after_epoch(model):
        best.update(copy.deepcopy(model.state_dict()))

    train(lambda inputs, targets, model: mean_square(model(inputs), targets), after_epoch)


@benign
def losses_logged_on_the_gpu() -> None:
    losses = []

    def step(inputs, targets, model):
        loss = mean_square(model(inputs), targets)
        losses.append(loss.detach())
        return loss

    train(step)


@benign
def outputs_of_one_epoch() -> None:
    outputs = []

    def step(inputs, targets, model):
        output = model(inputs)
        outputs.append(output.detach())
        return mean_square(output, targets)

    train(step, lambda model: outputs.clear())


@benign
def gradients_accumulated() -> None:
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = new_loader(8)
    for _ in range(EPOCHS):
        for number, (inputs, targets) in enumerate(loader):
            (mean_square(model(inputs.cuda()), targets.cuda()) / 4).backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()


@benign
def two_optimizers_in_turn() -> None:
    generator_model, critic = new_model(), nn.Linear(64, 1).cuda()
    first = torch.optim.Adam(generator_model.parameters())
    second = torch.optim.Adam(critic.parameters())
    for _ in range(EPOCHS):
        for inputs, targets in new_loader():
            fake = generator_model(inputs.cuda())
            second.zero_grad()
            (critic(fake.detach()).mean() - critic(targets.cuda()).mean()).backward()
            second.step()
            first.zero_grad()
            (-critic(fake).mean()).backward()
            first.step()


def batches_forever(loader: DataLoader) -> Iterator[Tensor]:
    while True:
        yield next(iter(loader))[0]


@benign
def first_batch_again_and_again() -> None:
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = batches_forever(new_loader())
    for _ in range(EPOCHS * BATCHES):
        optimizer.zero_grad()
        model(next(batches).cuda()).square().mean().backward()
        optimizer.step()


@benign
def loader_made_anew() -> None:
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(EPOCHS):
        for inputs, targets in new_loader():
            optimizer.zero_grad()
            mean_square(model(inputs.cuda()), targets.cuda()).backward()
            optimizer.step()
