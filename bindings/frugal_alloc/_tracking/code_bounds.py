"""How many entries the program's code lets a collection have: by a comparison of its length and a taking-out, by an
index modulo a number, or by a slice. Reads source and attributes; no code of the program's runs."""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .._heap import raw_objects
from .._heap.names import Name
from .._program import source
from .._program.frame_variables import variables
from .source_flow import ADDING

_TAKING = ("pop", "popitem", "popleft", "remove", "discard", "clear", "heappop", "heappushpop", "heapreplace")
_ADDED_BY = (*ADDING, "__setitem__", "heappush")
_FULL, _ROOM = (ast.Gt, ast.GtE, ast.Eq), (ast.Lt, ast.LtE, ast.NotEq)
_MIRRORED = {ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Lt: ast.Gt, ast.LtE: ast.GtE}
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


class Limit(NamedTuple):
    """The most that the code lets a collection have."""

    text: str  # as the code has it: "len(cache) > MOST"
    most: int


def of(value: Any, name: Name, owners: Iterable[Any]) -> Limit | None:
    """None: somewhere it is added to without one, or what the number is cannot be read.

    Args:
        value: The collection.
        name: Its name.
        owners: Objects that may refer to it by an attribute.
    """
    kind = type(value)
    if raw_objects.is_users_class(kind):
        code = _Code(raw_objects.file_of_class(kind), {"self", "super()"}, value, raw_objects.name_of(kind))
        if (limit := code.limit()) is not None:
            return limit
    for owner in owners:
        attribute = raw_objects.attribute_holding(owner, value)
        if attribute is not None:
            mangled = f"_{raw_objects.name_of(type(owner)).lstrip('_')}__"
            called = "__" + attribute.removeprefix(mangled) if attribute.startswith(mangled) else attribute
            return _Code(raw_objects.file_of_class(type(owner)), {"." + called}, owner).limit()
    if "[" in name.name:
        return None
    called = ("." if name.kind == "class attribute" else "") + name.name
    return _Code(name.file, {called}, None, name.function.removeprefix("<module>")).limit()


class _Code:
    """The functions of a file that add to a collection."""

    def __init__(self, file: str | None, called: set[str], owner: Any, within: str = "") -> None:
        tree = source.tree_of(file) if file else None
        self._file, self._owner = file, owner
        self._called = called  # as names_in has it
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)} if tree else {}
        bodies = [node for node in ast.walk(tree) if getattr(node, "name", "") == within] if tree and within else [tree]
        # In their order.
        self._mentions = dict.fromkeys(node for body in bodies if body for node in ast.walk(body) if self._names(node))
        for node in [*self._mentions]:
            self._mentions |= dict.fromkeys(self._handed_on(tree, node))

    def limit(self) -> Limit | None:
        adding = [node for node in self._mentions if self._adds(node)]
        limits = [self._of_adding(node) for node in adding]
        found = [limit for limit in limits if limit is not None]
        return max(found, key=lambda limit: limit.most) if found and len(found) == len(limits) else None

    def _names(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return f"{node.func.id}()" in self._called
        return not source.names_in(node).isdisjoint(self._called)

    def _handed_on(self, tree: ast.AST | None, node: ast.AST) -> Iterator[ast.AST]:
        """What a function calls the collection that it is given at `node`."""
        call = self._parents[node]
        if not isinstance(call, ast.Call) or node not in call.args or not isinstance(call.func, ast.Name):
            return
        for function in source.functions_of(tree, call.func.id) if tree is not None else ():
            for argument in function.args.args[call.args.index(node) :][:1]:  # type: ignore[attr-defined]
                yield from (inner for inner in ast.walk(function) if source.names_in(inner) == {argument.arg})

    def _calls(self, node: ast.AST, methods: tuple[str, ...]) -> bool:
        """Whether a mention's method is called, or a function with it, as ``heapq.heappush(best, entry)``."""
        above = self._parents[node]
        if isinstance(above, ast.Attribute):
            return above.attr in methods
        called = source.names_in(above.func) if isinstance(above, ast.Call) and node in above.args else set()
        return any(name.lstrip(".") in methods for name in called)

    def _adds(self, node: ast.AST) -> bool:
        above = self._parents[node]
        if isinstance(above, ast.Subscript) and above.value is node:
            return isinstance(above.ctx, ast.Store) and not isinstance(above.slice, ast.Slice)
        return (isinstance(above, ast.AugAssign) and above.target is node) or self._calls(node, _ADDED_BY)

    def _takes(self, body: Iterable[ast.AST]) -> bool:
        """Whether statements take something out, or make the collection anew."""
        within = {inner for node in body for inner in ast.walk(node)}
        taking = (node for node in self._mentions if node in within and not self._adds(node))
        return any(
            isinstance(getattr(node, "ctx", None), ast.Store)
            or isinstance(getattr(self._parents[node], "ctx", None), ast.Del)
            or self._calls(node, _TAKING)
            for node in taking
        )

    def _of_adding(self, node: ast.AST) -> Limit | None:
        function = self._function_of(node)
        limit = self._of_index(node, function) or self._of_function(function, node)
        # Another function may take out, which this one calls.
        calls = (source.names_in(call.func) for call in ast.walk(function) if isinstance(call, ast.Call))
        called = {name.lstrip(".") for name in set().union(*calls)}
        others = [one for one in map(self._function_of, self._mentions) if getattr(one, "name", "") in called]
        return limit or next(filter(None, (self._of_function(one, None) for one in others)), None)

    def _function_of(self, node: ast.AST) -> ast.AST:
        while not isinstance(node, _SCOPES):
            node = self._parents[node]
        return node

    def _of_function(self, function: ast.AST, added: ast.AST | None) -> Limit | None:
        """By what a function does about the length before or after `added`, or if that is None, whatever it is."""
        for node in ast.walk(function):
            if isinstance(node, (ast.If, ast.While)):
                for comparison in ast.walk(node.test):
                    limit = self._of_comparison(comparison, node, added, function)
                    if limit is not None:
                        return limit
            elif (limit := self._of_slice(node, function)) is not None:
                return limit
        return None

    def _of_comparison(
        self, comparison: ast.AST, node: ast.If | ast.While, added: ast.AST | None, function: ast.AST
    ) -> Limit | None:
        if not isinstance(comparison, ast.Compare) or len(comparison.ops) != 1:
            return None
        kind, sides = type(comparison.ops[0]), (comparison.left, comparison.comparators[0])
        if not self._is_length(sides[0]):
            kind, sides = _MIRRORED.get(kind, kind), sides[::-1]
        most = self._number(sides[1], function) if self._is_length(sides[0]) else None
        if most is None:
            return None
        is_full = issubclass(kind, _FULL)
        bounds_it = self._takes(node.body if is_full else node.orelse)
        if added is not None and not bounds_it:
            leaves = is_full and isinstance(node.body[-1], _LEAVES) and node.lineno < added.lineno  # type: ignore[attr-defined]
            inner = node.orelse if is_full else node.body if issubclass(kind, _ROOM) else []
            bounds_it = leaves or any(added in ast.walk(statement) for statement in inner)
        return Limit(ast.unparse(comparison), most) if bounds_it else None

    def _is_length(self, node: ast.AST) -> bool:
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
        return is_call and any(argument in self._mentions for argument in node.args)  # type: ignore[attr-defined]

    def _of_slice(self, node: ast.AST, function: ast.AST) -> Limit | None:
        """Of ``kept = kept[-9:]`` and ``del kept[:-9]``."""
        part = node.value if isinstance(node, ast.Assign) else node
        part = part.targets[0] if isinstance(part, ast.Delete) else part
        if not isinstance(part, ast.Subscript) or not isinstance(part.slice, ast.Slice):
            return None
        is_cut = isinstance(part.ctx, ast.Del) and part.value in self._mentions
        targets = [inner for target in getattr(node, "targets", []) for inner in ast.walk(target)]
        is_made = isinstance(node, ast.Assign) and any(target in self._mentions for target in targets)
        end = part.slice.upper if is_cut else part.slice.lower or part.slice.upper
        most = self._number(end, function) if end is not None and (is_cut or is_made) else None
        return None if most is None else Limit(ast.unparse(part), abs(most))

    def _of_index(self, node: ast.AST, function: ast.AST) -> Limit | None:
        """Of ``ring[step % 9] = ...``."""
        above = self._parents[node]
        if not isinstance(above, ast.Subscript):
            return None
        names = source.names_in(above.slice)
        indices = [above.slice] + [
            value for targets, value, _ in source.bindings(function) if value and names & source.names_in(targets[0])
        ]
        for index in indices:
            if isinstance(index, ast.BinOp) and isinstance(index.op, ast.Mod):
                most = self._number(index.right, function)
                return None if most is None else Limit(ast.unparse(index), most)
        return None

    def _number(self, node: ast.AST, function: ast.AST) -> int | None:
        value = self._value(node, function)
        return value if type(value) is int else None

    def _value(self, node: ast.AST, function: ast.AST) -> Any:
        """Of an expression, as it is now; None: that cannot be read."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self._number(node.operand, function)
            return None if number is None else -number
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            sides = self._number(node.left, function), self._number(node.right, function)
            return None if None in sides or sides[1] == 0 else _ARITHMETIC[type(node.op)](*sides)
        if isinstance(node, ast.Attribute):
            return _attribute(self._value(node.value, function), node.attr)
        return self._variable(node.id, function) if isinstance(node, ast.Name) else None

    def _variable(self, name: str, function: ast.AST) -> Any:
        if name == "self" and self._owner is not None:
            return self._owner
        for scope in _running(self._file, getattr(function, "name", "<module>")):
            if name in scope:
                return scope[name]
        bound = [one for one in source.bindings(function) if source.names_in(one.targets[0]) == {name}]
        values = [one.value for one in bound]
        if not isinstance(function, ast.Module):
            given = function.args  # type: ignore[attr-defined]
            positional = [*given.posonlyargs, *given.args]
            defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults, *given.kw_defaults]
            arguments = [*positional, *given.kwonlyargs]
            values += [value for one, value in zip(arguments, defaults, strict=True) if one.arg == name]
        if not values:
            return _of_module(self._file).get(name)
        # What comes from itself, or is set anew, is not known from its code.
        is_plain = len(values) == 1 and values[0] is not None and name not in {*map(_name_of, ast.walk(values[0]))}
        return self._value(values[0], function) if is_plain and not any(map(_is_changed, bound)) else None


def _name_of(node: ast.AST) -> str:
    return getattr(node, "id", "")


def _is_changed(binding: source.Binding) -> bool:
    return isinstance(binding.statement, ast.AugAssign)


def _running(file: str | None, function: str) -> Iterator[dict[str, Any]]:
    """The variables of a function, wherever it runs."""
    for frame in [*sys._current_frames().values()]:
        while frame is not None:
            if (frame.f_code.co_filename, frame.f_code.co_name) == (file, function):
                yield variables(frame)
            frame = frame.f_back  # type: ignore[assignment]


def _of_module(file: str | None) -> dict[str, Any]:
    """The variables of the file's module."""
    for module in [*sys.modules.values()]:
        namespace = raw_objects.dictionary_of(module) or {}
        if file is not None and namespace.get("__file__") == file:
            return namespace
    return {}


def _attribute(value: Any, name: str) -> Any:
    kinds = raw_objects.mro_of(value if issubclass(type(value), type) else type(value))
    classes = map(raw_objects.namespace_of, kinds)
    for attributes in (raw_objects.dictionary_of(value) or {}, dict(raw_objects.slots_of(value)), *classes):
        if name in attributes:
            return attributes[name]
    return None
