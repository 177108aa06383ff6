"""Programs whose leak is held by code: functions, their caches, what is suspended, exceptions, threads, log records."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import logging
import logging.handlers
import threading
from collections.abc import Callable
from typing import Any

import torch
from held_programs import EPOCHS, FEATURES, held_by, train
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def counting() -> Callable[[Tensor], None]:
    enclosed = []
    return lambda tensor: enclosed.append(tensor)


count = counting()


@held_by("list 'enclosed' in the closure of <lambda>()")
def closure():
    train(lambda inputs, model: count(inputs.repeat(16, 1)))


def remember(tensor: Tensor, memory: list[Tensor] = []) -> None:  # noqa: B006
    memory.append(tensor)


@held_by("list 'memory', a default argument of remember()")
def default_argument():
    train(lambda inputs, model: remember(inputs.repeat(16, 1)))


callbacks: list[Callable[[], Any]] = []


@held_by("list 'callbacks'", "tensor 'batch', a default argument of <lambda>()")
def default_arguments_of_many_functions():
    train(lambda inputs, model: callbacks.append(lambda batch=inputs.repeat(16, 1): batch))  # noqa: B008


@functools.cache
def embedded(number: int) -> Tensor:
    return torch.full((64, 64), float(number), device="cuda")


@held_by("cache of embedded()", pattern="unbounded_cache")
def cached_function():
    numbers = iter(range(1000))
    train(lambda inputs, model: print(end=str(embedded(next(numbers)).shape)[:0]))


class Positions:
    @functools.lru_cache(maxsize=500)  # noqa: B019
    def at(self, number: int) -> Tensor:
        return torch.full((64, 64), float(number), device="cuda")


@held_by("cache of at()", pattern="unbounded_cache")
def cached_method():
    positions = Positions()
    numbers = iter(range(400))
    train(lambda inputs, model: print(end=str(positions.at(next(numbers)).shape)[:0]))


jobs: list[Callable] = []


@held_by("list 'jobs'", "tuple 'args' of partial")
def partials():
    train(lambda inputs, model: jobs.append(functools.partial(print, inputs.repeat(16, 1))))


handler = logging.handlers.MemoryHandler(10_000, flushLevel=logging.CRITICAL)


@held_by("list 'buffer' of MemoryHandler 'handler'", "tuple 'args' of LogRecord")
def logged_records():
    logger = logging.getLogger("leaking")
    logger.propagate = False
    logger.addHandler(handler)
    train(lambda inputs, model: logger.warning("batch %s", inputs.repeat(16, 1)))


@held_by("list 'errors'", "variable 'workspace' of check(), which an exception keeps", "stored_exception")
def stored_exceptions():
    errors = []

    def check(inputs):
        workspace = inputs.repeat(16, 1)
        raise ValueError(len(workspace))

    def step(inputs, model):
        try:
            check(inputs)
        except ValueError as error:
            errors.append(error)

    train(step)


@held_by("list 'generators'", "variable 'inner' of waiting()")
def generators_kept():
    generators = []

    def waiting(inputs):
        inner = inputs.repeat(16, 1)
        yield
        yield inner

    def step(inputs, model):
        generators.append(waiting(inputs))
        next(generators[-1])

    train(step)


of_thread = threading.local()


@held_by("list 'kept' in _local 'of_thread'")
def thread_local():
    of_thread.kept = []
    train(lambda inputs, model: of_thread.kept.append(inputs.repeat(16, 1)))


requests: contextvars.ContextVar[list] = contextvars.ContextVar("requests")


@held_by("list of the context variable 'requests'")
def context_variable():
    token = requests.set([])
    try:
        train(lambda inputs, model: requests.get().append(inputs.repeat(16, 1)))
    finally:
        requests.reset(token)


@held_by("list 'futures'", "tensor '_result' of Future")
def results_of_futures():
    futures = []

    def step(inputs, model):
        future = concurrent.futures.Future()
        future.set_result(inputs.repeat(16, 1))
        futures.append(future)

    train(step)


@held_by("list 'tasks'", "variable 'inner' of wait()")
def tasks_that_wait():
    async def wait(inputs, event):
        inner = inputs.repeat(16, 1)
        await event.wait()
        return inner

    async def main():
        tasks, event = [], asyncio.Event()
        model = nn.Linear(FEATURES, FEATURES).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(EPOCHS):
            for (inputs,) in DataLoader(TensorDataset(torch.ones(32, FEATURES)), batch_size=8):
                tasks.append(asyncio.create_task(wait(inputs.cuda(), event)))
                await asyncio.sleep(0)
                model(inputs.cuda()).sum().backward()
                optimizer.step()
        event.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
