"""Programs whose leak is held by data: lists, dictionaries, attributes, queues, or by nothing that Python knows."""

from __future__ import annotations

import collections
import ctypes
import queue
import weakref

import installed_library
import numpy
from held_programs import held_by, train
from torch import Tensor, nn

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


@held_by("dict 'conversations'", "list 'layers' of DynamicCache")
def librarys_cache_in_a_dictionary():
    conversations = {}

    def step(inputs, model):
        cache = installed_library.DynamicCache()
        cache.update(inputs.repeat(16, 1), 0)
        conversations[len(conversations)] = cache

    train(step)


@held_by("list 'value' of CatMetric 'metric'", pattern="metric_state")
def states_of_a_librarys_metric():
    metric = installed_library.CatMetric()
    train(lambda inputs, model: metric.update(inputs.repeat(16, 1)))


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


@held_by("deque 'queue' of Queue 'pending'")
def queue_nobody_empties():
    pending = queue.Queue()
    train(lambda inputs, model: pending.put(inputs.repeat(16, 1)))


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
