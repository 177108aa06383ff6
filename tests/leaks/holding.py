"""Small programs that leak, each in another place: run by test_holders.py, several in one process.

Each is a function that is declared with who holds its leak, as the report is to say it; None: nobody whom Python knows.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextvars
import ctypes
import functools
import gc
import logging
import logging.handlers
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import installed_library
import numpy
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 10
FEATURES = 64


class Program(NamedTuple):
    run: Callable[[], None]
    what: str | None
    through: str
    pattern: str | None


_programs: dict[str, Program] = {}


def held_by(what: str | None, through: str = "", pattern: str | None = None) -> Callable:
    """Declares a program: who is to be told, the way from there, and the pattern where it matters."""

    def declare(function: Callable[[], None]) -> Callable[[], None]:
        _programs[function.__name__] = Program(function, what, through, pattern)
        return function

    return declare


def all_programs() -> dict[str, Program]:
    return _programs


def train(step: Callable[[Tensor, nn.Module], Tensor | None], model: nn.Module | None = None) -> None:
    """An ordinary training: `step` may return a loss of its own."""
    if model is None:
        model = nn.Linear(FEATURES, FEATURES).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.ones(32, FEATURES)), batch_size=8)
    for _ in range(EPOCHS):
        for (inputs,) in loader:
            optimizer.zero_grad()
            batch = inputs.cuda()
            loss = step(batch, model)
            if loss is None:
                loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            del loss


in_module: list[Tensor] = []


@held_by("list 'in_module'", pattern="outputs_kept")
def global_list():
    train(lambda inputs, model: in_module.append(inputs.repeat(16, 1)))


@held_by("list 'loss' in dict 'logs'")
def list_in_a_dictionary():
    logs = {"loss": [], "rate": []}

    def step(inputs, model):
        logs["loss"].append(inputs.repeat(16, 1))
        logs["rate"].append(0.1)

    train(step)


class Store:
    seen: list[Tensor] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.mine: list[Tensor] = []

    def add(self, tensor: Tensor) -> None:
        self.seen.append(tensor)


@held_by("list 'seen' of class Store", pattern="outputs_kept")
def attribute_of_a_class():
    store = Store()

    def step(inputs, model):
        out = model(inputs)
        store.add(out)
        return out.square().mean()

    train(step)


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


class Outputs(collections.OrderedDict):
    """As transformers has it: entries that are attributes, too."""

    def __setitem__(self, key: str, value: Tensor) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Trainer(installed_library.Trainer):
    outputs: list[Outputs] = []  # noqa: RUF012

    def compute_loss(self, model: nn.Module, inputs: Tensor) -> Tensor:
        outputs = Outputs()
        outputs["logits"] = model(inputs)
        self.outputs.append(outputs)
        return outputs["logits"].square().mean()


@held_by("list 'outputs' of class Trainer")
def attribute_of_a_librarys_subclass():
    trainer = Trainer()
    train(lambda inputs, model: trainer.compute_loss(model, inputs))


@held_by("list 'mine' of Store")
def attribute_of_an_object():
    store = Store()
    train(lambda inputs, model: store.mine.append(inputs.repeat(16, 1)))


class Slotted:
    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: list[Tensor] = []


@held_by("list 'kept' of Slotted")
def slot_of_an_object():
    slotted = Slotted()
    train(lambda inputs, model: slotted.kept.append(inputs.repeat(16, 1)))


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


@held_by("dict 'conversations'", "list 'layers' of DynamicCache")
def librarys_cache_in_a_dictionary():
    conversations = {}

    def step(inputs, model):
        cache = installed_library.DynamicCache()
        cache.update(inputs.repeat(16, 1), 0)
        conversations[len(conversations)] = cache

    train(step)


@held_by("list 'copies'", "parameter 'weight' of Linear")
def copies_of_models():
    copies = []

    def step(inputs, model):
        copies.append(nn.Sequential(nn.Linear(FEATURES, FEATURES, bias=False)).cuda())

    train(step)


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


shared = torch.ones(FEATURES, FEATURES, device="cuda")


@held_by("list 'value' of CatMetric 'metric'", pattern="metric_state")
def states_of_a_librarys_metric():
    metric = installed_library.CatMetric()
    train(lambda inputs, model: metric.update(inputs.repeat(16, 1)))


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


@held_by("list 'kept'")
def weak_dictionary_beside_a_list():
    weak, kept = weakref.WeakValueDictionary(), []

    def step(inputs, model):
        weak[len(kept)] = tensor = inputs.repeat(16, 1)
        kept.append(tensor)

    train(step)


@held_by("list 'everything'")
def bounded_deque_beside_a_list():
    recent, box = collections.deque(maxlen=5), Store()
    box.everything = everything = []

    def step(inputs, model):
        tensor = inputs.repeat(16, 1)
        recent.append(tensor)
        everything.append(tensor)

    train(step)


@held_by("ndarray 'table'")
def array_of_objects():
    table = numpy.empty(100, dtype=object)
    places = iter(range(100))

    def step(inputs, model):
        table[next(places)] = inputs.repeat(16, 1)

    train(step)


@held_by("list 'futures'", "tensor '_result' of Future")
def results_of_futures():
    futures = []

    def step(inputs, model):
        future = concurrent.futures.Future()
        future.set_result(inputs.repeat(16, 1))
        futures.append(future)

    train(step)


@held_by("deque 'queue' of Queue 'pending'")
def queue_nobody_empties():
    pending = queue.Queue()
    train(lambda inputs, model: pending.put(inputs.repeat(16, 1)))


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


@held_by("Node 'head'", "Node 'next' of Node")
def linked_list():
    head = None

    class Node:
        def __init__(self, value, following):
            self.value, self.next = value, following

    def step(inputs, model):
        nonlocal head
        head = Node(inputs.repeat(16, 1), head)

    train(step)


@held_by("list 'history' of Remembering")
def list_of_each_layer():
    model = nn.Sequential(*(Remembering() for _ in range(6))).cuda()
    train(lambda inputs, model: None, model)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, FEATURES)
        self.history: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs)
        self.history.append(outputs.detach() * 2)
        return outputs


@held_by("list 'registry' of installed_library.py")
def list_of_a_library():
    train(lambda inputs, model: installed_library.register(inputs.repeat(16, 1)))


@held_by(None, pattern="unknown")
def held_in_c():
    def step(inputs, model):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inputs.repeat(16, 1)))

    train(step)


@held_by(None, pattern="unknown")
def held_in_c_beside_a_variable_with_the_latest():
    latest = Store()

    def step(inputs, model):
        latest.one = inputs.repeat(16, 1)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(latest.one))

    train(step)
