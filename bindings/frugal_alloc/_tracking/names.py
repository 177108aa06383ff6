"""By which name a program reaches an object: a variable, an attribute, or what a container or a function holds."""

from __future__ import annotations

import collections
import gc
import sys
import types
from typing import Any, NamedTuple

from .._frame_variables import variables
from .._users_code import OURS, is_users, owner
from . import assignments

_CO_OPTIMIZED = 1
# From a tensor to a name: list, dictionary, object, list ... Further up everything holds everything.
MOST_LEVELS = 6
MOST_REFERRERS = 64
# Each asks every object that there is: some hundredths of a second.
MOST_QUESTIONS = 60

_CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)
# What grows: whoever holds one of these holds all that is in it.
_COLLECTION_NAMES = ("list", "set", "dict", "deque", "defaultdict", "OrderedDict")
# They have no attributes of their own: who refers to them is asked.
_ANONYMOUS = (*_CONTAINERS, types.CellType, types.TracebackType, type, types.ModuleType)
# Variables that name nothing but themselves.
_NOT_HOLDERS = (types.ModuleType, types.FunctionType, type, str, bytes, int, float, bool, type(None))


class Name(NamedTuple):
    """Of a holder, in words, and where it is assigned if that can be known."""

    kind: str  # "variable", "attribute", "closure", "frame", "exception"
    what: str  # "list 'losses'", "list 'history' of Trainer"
    name: str
    holder: str  # the class of what holds: "list", "Trainer"
    file: str | None
    line: int | None
    through: str = ""  # "parameter 'weight' of Linear": what the holder holds, where that is not the tensor itself


class _Variable(NamedTuple):
    name: str
    file: str | None
    function: str


class Names:
    """The variables of the program's modules and of its running functions, and who refers to whom.

    Holds ids only, which are valid for as long as the caller holds the objects (all that the collector knows).
    """

    def __init__(self) -> None:
        self._variables: dict[int, _Variable] = {}
        self._namespaces: set[int] = set()
        # What was found before: one tensor's graph may hold what many lines have made.
        self._known: dict[int, Name | None] = {}
        self._questions = 0
        self._add_modules()
        self._add_frames()

    def of(self, target: Any, leave_out: set[int]) -> Name | None:
        """The nearest name of an object: its own, or that of what holds it.

        Args:
            target: The object.
            leave_out: Ids of lists and frames that hold it for the search alone.
        """
        if id(target) in self._variables:
            return self._variable(target)
        if id(target) not in self._known:
            self._known[id(target)] = self._find(target, leave_out)
        return self._known[id(target)]

    def _find(self, target: Any, leave_out: set[int]) -> Name | None:
        level: list[Any] = [target]
        # Id of a dictionary -> the key under which it holds the object below it.
        keys: dict[int, Any] = {}
        seen = {id(target), id(keys)} | leave_out
        for _ in range(MOST_LEVELS):
            self._questions += 1
            if self._questions > MOST_QUESTIONS:
                return None
            seen.add(id(level))
            referrers = gc.get_referrers(*level)
            seen.add(id(referrers))
            above: list[Any] = []
            seen.add(id(above))
            for referrer in referrers[:MOST_REFERRERS]:
                if id(referrer) in seen or id(referrer) in self._namespaces:
                    continue
                seen.add(id(referrer))
                name = self._name_by(referrer, level, keys)
                if name is not None:
                    return self._collected(name, referrer, seen)
                if not isinstance(referrer, types.FrameType):
                    above.append(referrer)
            if not above:
                return None
            level = above
        return None

    def _collected(self, name: Name, holder: Any, seen: set[int]) -> Name:
        """The name, or where it is an attribute of one of many objects, that of the collection which has them all."""
        if name.kind != "attribute" or name.what.split(" ")[0] in _COLLECTION_NAMES or id(holder) in self._variables:
            return name
        above = self.of(holder, seen)
        if above is None or above.what.split(" ")[0] not in _COLLECTION_NAMES:
            return name
        what = f"{above.what}, as '{name.name}' of each {name.holder}"
        return above._replace(what=what, through=name.what)

    def knows(self, target: Any) -> bool:
        """Whether a variable of the program is this very object."""
        return id(target) in self._variables

    def _name_by(self, referrer: Any, level: list[Any], keys: dict[int, Any]) -> Name | None:
        """What `referrer` says about one of the objects that it refers to; None: look at who refers to it."""
        kind = type(referrer)
        if kind is types.FrameType:
            return _name_in_frame(referrer, level)
        if kind is types.FunctionType:
            return _name_in_function(referrer, level)
        if kind in (dict, collections.OrderedDict, collections.defaultdict):
            wanted = {id(one) for one in level}
            keys[id(referrer)] = next((key for key, value in referrer.items() if id(value) in wanted), None)
        if issubclass(kind, _CONTAINERS):
            return self._variable(referrer) if id(referrer) in self._variables else None
        if issubclass(kind, _ANONYMOUS):
            return None
        return self._name_in_object(referrer, level, keys)

    def _name_in_object(self, holder: Any, level: list[Any], keys: dict[int, Any]) -> Name | None:
        """An attribute of an object. Reads the object's dictionary only: no property, no code of its class."""
        try:
            attributes = object.__getattribute__(holder, "__dict__")
        except (AttributeError, TypeError):
            return None
        wanted = {id(one) for one in level}
        if id(attributes) in keys:
            name = keys[id(attributes)]
            # A part of a model is no holder: the model is.
            return None if name == "_modules" else self._attribute(holder, name, attributes.get(name), keys)
        for name, value in list(attributes.items()):
            if id(value) in wanted and name != "_modules":
                return self._attribute(holder, name, value, keys)
        return None

    def _attribute(self, holder: Any, name: Any, value: Any, keys: dict[int, Any]) -> Name:
        kind = type(holder)
        held = _kind_of(value)
        # A module's own dictionaries: the name of the buffer says more.
        if name in ("_buffers", "_parameters") and isinstance(keys.get(id(value)), str):
            held, name = name[1:].rstrip("s"), keys[id(value)]
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        what = f"{held} '{name}' of {kind.__name__}"
        if is_users(file):
            line = assignments.line_of_attribute(file, kind.__name__, str(name))
            return Name("attribute", what, str(name), kind.__name__, file, line)
        if id(holder) in self._variables:
            variable = self._variable(holder)
            what = f"{what} '{variable.name}'"
            return Name("attribute", what, str(name), kind.__name__, variable.file, variable.line)
        return Name("attribute", what, str(name), kind.__name__, None, None)

    def _variable(self, value: Any) -> Name:
        name, file, function = self._variables[id(value)]
        line = assignments.line_of_name(file, function, name) if file else None
        kind = _kind_of(value)
        return Name("variable", f"{kind} '{name}'", name, kind, file, line)

    def _add_modules(self) -> None:
        for module in list(sys.modules.values()):
            if type(module) is not types.ModuleType:
                continue
            variables = module.__dict__
            self._namespaces.add(id(variables))
            file = variables.get("__file__")
            if is_users(file) or variables.get("__name__") == "__main__":
                for name, value in list(variables.items()):
                    self._add(name, value, file, "<module>")

    def _add_frames(self) -> None:
        # `frame` ends as None in each: one that referred to its own frame would keep all variables of the stack alive.
        for frame in sys._current_frames().values():
            values: dict[str, Any] = {}
            while frame is not None:
                code = frame.f_code
                values = variables(frame, callee=values) if is_users(code.co_filename) else {}
                for name, value in values.items():
                    self._add(name, value, code.co_filename, code.co_name)
                frame = frame.f_back

    def _add(self, name: str, value: Any, file: str | None, function: str) -> None:
        if not name.startswith("__") and not isinstance(value, _NOT_HOLDERS):
            self._variables.setdefault(id(value), _Variable(name, file, function))


def _name_in_frame(frame: types.FrameType, level: list[Any]) -> Name | None:
    """A frame that Python's collector knows: one that has ended and is kept, or a generator's."""
    wanted = {id(one) for one in level}
    code = frame.f_code
    name = next((name for name, value in variables(frame).items() if id(value) in wanted), None)
    if name is None or not code.co_flags & _CO_OPTIMIZED or owner(code.co_filename) == OURS:
        return None
    is_exceptions = any(type(referrer) is types.TracebackType for referrer in gc.get_referrers(frame))
    if is_exceptions:
        line = assignments.line_of_name(code.co_filename, code.co_name, name)
        what = f"variable '{name}' of {code.co_name}(), which an exception keeps"
        return Name("exception", what, name, "exception", code.co_filename, line)
    return Name("frame", f"variable '{name}' of {code.co_name}()", name, "frame", code.co_filename, None)


def _name_in_function(function: types.FunctionType, level: list[Any]) -> Name | None:
    wanted = {id(one) for one in level}
    cells = function.__closure__ or ()
    code = function.__code__
    for name, cell in zip(code.co_freevars, cells, strict=False):
        if id(cell) in wanted or any(id(held) in wanted for held in gc.get_referents(cell)):
            what = f"variable '{name}' in the closure of {function.__name__}()"
            return Name("closure", what, name, "function", code.co_filename, code.co_firstlineno)
    return None


def _kind_of(value: Any) -> str:
    kind = type(value)
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        return "tensor"
    return kind.__name__
