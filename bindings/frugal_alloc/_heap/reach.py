"""Which objects a program's names reach, and by which way: a walk downwards, to the nearest first."""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from .._program.frame_variables import variables
from .._program.users_code import is_ours
from . import kept_pools, live_tensors, raw_objects
from .roots import Root

# 0.7 us each: a process with transformers imported has 350,000.
MOST_OBJECTS = 600_000
# A list of so many tensors, or of some hundred models.
MOST_WITHIN = 100_000
# More are numbers as a rule: 40 ms.
MOST_ITEMS = 1_000_000
# Larger ones hold numbers as a rule, and are of this type by mistake.
MOST_IN_AN_ARRAY = 100_000

Finder = Callable[[Any], Iterable[Any]]
# What an object is to the walk; "": nothing in particular.
_TENSOR, _MODULE, _OPTIMIZER, _CLASS = "tensor", "module", "optimizer", "class"


class Reach:
    """What was reached so far. Holds all of it: to be let go soon.

    An object is known by its number, in the order in which they were reached. Nothing runs code of the program's, and
    each object is looked at in one call of the collector's, so other threads may go on and change what they like.
    """

    def __init__(self, most: int = MOST_OBJECTS) -> None:
        self.objects: list[Any] = []
        #: Number of the object that led to each; -1 - n: it is the value of root n.
        self.parents: list[int] = []
        self.roots: list[Root] = []
        #: Numbers of those that are tensors, or keep a private pool; and of those that are torch.nn.Modules.
        self.tensors: list[int] = []
        self.modules: list[int] = []
        self._most = most
        self._seen: set[int] = set()
        self._skipped: list[int] = []
        # Come last: parameters are a model's first of all.
        self._optimizers: deque[int] = deque()
        self.has_entered_libraries = False
        # By the id of a class: one may have a hash of its own.
        self._kinds: dict[int, tuple[str, Finder]] = dict(_KINDS)

    def enter_libraries(self) -> None:
        """From now on classes of libraries are walked into, too, also those that were passed by."""
        self.has_entered_libraries = True
        skipped, self._skipped = self._skipped, []
        self._walk(deque(skipped))

    def walk(self, roots: Iterable[Root]) -> None:
        """Goes on from more names, to all that was not reached before."""
        waiting: deque[int] = deque()
        for root in roots:
            self.roots.append(root)
            if id(root.value) not in self._seen and _is_walked(root.value):
                waiting.append(self._add(root.value, -len(self.roots)))
        self._walk(waiting)

    def _add(self, value: Any, parent: int) -> int:
        self._seen.add(id(value))
        self.objects.append(value)
        self.parents.append(parent)
        return len(self.objects) - 1

    def _walk(self, waiting: deque[int]) -> None:
        seen, is_tracked = self._seen, gc.is_tracked
        ours = (self, self.objects, self.parents, self.roots, self.tensors, self.modules, self._optimizers, waiting)
        seen.update(map(id, ours))
        while (waiting or self._optimizers) and len(self.objects) < self._most:
            if waiting:
                number = waiting.popleft()
                children = self._children(number)
            else:
                number = self._optimizers.popleft()
                children = gc.get_referents(self.objects[number])
            for child in children:
                if id(child) not in seen and (is_tracked(child) or _is_walked(child)):
                    waiting.append(self._add(child, number))
                    if len(self.objects) >= self._most:
                        return

    def _children(self, number: int) -> Iterable[Any]:
        value = self.objects[number]
        kind = type(value)
        what, find = self._kinds.get(id(kind)) or self._kinds.setdefault(id(kind), _kind_of(kind))
        if what == _TENSOR:
            self.tensors.append(number)
        elif what == _MODULE:
            self.modules.append(number)
        elif what == _OPTIMIZER:
            self._optimizers.append(number)
            return ()
        elif what == _CLASS and not self.has_entered_libraries and not raw_objects.is_users_class(value):
            self._skipped.append(number)
            return ()
        return find(value)

    def path_to(self, number: int) -> list[int]:
        """The numbers of the objects from a root's value to an object; the first one's parent says which root."""
        path = [number]
        while (parent := self.parents[path[-1]]) >= 0:
            path.append(parent)
        return path[::-1]

    def root_of(self, number: int) -> Root:
        """The root whose value the object is."""
        return self.roots[-1 - self.parents[number]]


def tensors_within(value: Any, enters_libraries: bool) -> list[Any]:
    """The tensors that one object reaches, and the keepers of pools, the nearest first."""
    reach = Reach(MOST_WITHIN)
    reach.walk([Root("object", "", value, None, "", True)])
    if enters_libraries:
        reach.enter_libraries()
    return [reach.objects[number] for number in reach.tensors]


def _is_walked(value: Any) -> bool:
    """Whether something may be within it. NumPy's arrays are not known to the collector."""
    return gc.is_tracked(value) or type(value) is raw_objects.imported("numpy", "ndarray")


def _nothing(value: Any) -> Iterable[Any]:
    return ()


def _items(sequence: list[Any] | tuple[Any, ...]) -> Iterable[Any]:
    return gc.get_referents(sequence) if len(sequence) <= MOST_ITEMS else sequence[:MOST_ITEMS]


def _function_parts(function: types.FunctionType) -> Iterable[Any]:
    # Not its module's variables, nor its code.
    return filter(None, (function.__closure__, function.__defaults__, function.__kwdefaults__, function.__dict__))


def _frame_parts(frame: types.FrameType) -> Iterable[Any]:
    if is_ours(frame.f_code.co_filename):
        return ()
    values = [] if frame.f_code.co_name == "<module>" else list(variables(frame).values())
    # What is kept of a frame keeps its callers.
    return [*values, frame.f_back] if frame.f_back is not None else values


def _traceback_parts(traceback: types.TracebackType) -> Iterable[Any]:
    return [part for part in (traceback.tb_frame, traceback.tb_next) if part is not None]


def _class_members(kind: type) -> Iterable[Any]:
    # The attributes are in its namespace, which no other object has.
    return [part for part in gc.get_referents(kind) if type(part) is dict]


def _array_items(array: Any) -> Iterable[Any]:
    if not array.dtype.hasobject or array.size > MOST_IN_AN_ARRAY:
        return ()
    return filter(_is_walked, array.ravel().tolist())


def _tensor_parts(tensor: Any) -> Iterable[Any]:
    parts = gc.get_referents(tensor)
    gradient = live_tensors.gradient_of(tensor)
    return parts if gradient is None else [*parts, gradient]


_KINDS: dict[int, tuple[str, Finder]] = {
    id(types.FunctionType): ("", _function_parts),
    id(types.FrameType): ("", _frame_parts),
    id(types.TracebackType): ("", _traceback_parts),
    id(types.CodeType): ("", _nothing),
    id(list): ("", _items),
    id(tuple): ("", _items),
}


def _kind_of(kind: type) -> tuple[str, Finder]:
    """What objects of a class are, and how their parts are found."""
    if issubclass(kind, type):
        return _CLASS, _class_members
    if issubclass(kind, types.ModuleType):
        return "", _nothing
    # Whatever is registered as one: issubclass() would ask its metaclass.
    bases = set(map(id, raw_objects.mro_of(kind)))
    if id(live_tensors.tensor_type()) in bases:
        return _TENSOR, _tensor_parts
    if id(raw_objects.imported("torch.nn", "Module")) in bases:
        return _MODULE, gc.get_referents
    if id(raw_objects.imported("torch.optim", "Optimizer")) in bases:
        return _OPTIMIZER, _nothing
    if not bases.isdisjoint(map(id, kept_pools.keeper_types())):
        return _TENSOR, gc.get_referents
    return "", _array_items if kind is raw_objects.imported("numpy", "ndarray") else gc.get_referents
