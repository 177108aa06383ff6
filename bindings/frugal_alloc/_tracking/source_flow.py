"""What the program's source does with a variable: whether it is carried on, and whether what it gathers is used."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .._program import source
from .._program.liveness import Flow

# What they are given they do not change.
_HARMLESS = ("print", "len", "isinstance", "range", "float", "int", "str")
ADDING = ("append", "appendleft", "add", "extend", "insert", "update", "setdefault")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def is_carried(file: str, function: str, name: str) -> bool:
    """Whether a variable goes into its own next value, as a queue that is concatenated to does; as far as the source
    tells: True where that is not known.

    Another variable is made anew each time, as an output is. If it becomes larger, the cause is what it is made from: a
    curriculum of longer sequences, or another variable that grows. What an inner function sets in an outer one, or in
    its module, is state that the program keeps on purpose.

    Args:
        file: Where the variable is.
        function: That it is a variable of, or "<module>".
        name: "negatives".
    """
    tree = source.tree_of(file)
    code = source.code_of(file, function)
    if tree is None or code is None:
        return True
    origins: dict[str, set[str]] = {}
    for body in source.functions_of(tree, function):
        if any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.walk(body)):
            return True
        for target, names in _flows(body):
            origins.setdefault(target, set()).update(names)
    if name not in _reached(origins, origins.get(name, ())):
        return False
    flow = Flow(code)
    return flow.reads_any or name in flow.always_read | flow.alive_at_loops()


def _reached(origins: dict[str, set[str]], names: Iterable[str]) -> set[str]:
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(origins.get(name, ()))
    return seen


def _flows(body: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """The names that statements give a value to, or change, each with those that it comes from."""
    for targets, value, statement in source.bindings(body):
        origins = _names(value) if value is not None else set()
        for name in set().union(*map(_names, targets)):
            # What is added to is the same one.
            yield name, origins | {name} if isinstance(statement, ast.AugAssign) else origins
    for node in ast.walk(body):
        if isinstance(node, ast.comprehension):
            for name in _names(node.target):
                yield name, _names(node.iter)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from _of_call(node.value)


def _of_call(call: ast.Call) -> Iterator[tuple[str, set[str]]]:
    """What is called for its effect changes the object whose method it is, or what it is given."""
    given = set().union(*map(_names, (*call.args, *(keyword.value for keyword in call.keywords))))
    if isinstance(call.func, ast.Attribute):
        for name in _names(call.func.value):
            yield name, given
    elif not (isinstance(call.func, ast.Name) and call.func.id in _HARMLESS):
        for name in given:
            yield name, given


def _names(node: ast.AST) -> set[str]:
    """Variables, and attributes as ".name": their objects, and what is called, are not among them."""
    return set().union(*map(source.names_in, ast.walk(node))) - {"self", "cls"}


def is_used_in_passing(file: str, name: str) -> bool:
    """Whether the entries of a variable, or an attribute, are read as the program goes on: in the loop that adds to it,
    or in another function. What is read once all is done, is not.

    Args:
        file: Where it is assigned.
        name: "learners", or an attribute's "self.learners".
    """
    tree = source.tree_of(file)
    if tree is None:
        return False
    wanted = {"." + name.removeprefix("self.") if name.startswith("self.") else name}
    parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    mentions = [node for node in ast.walk(tree) if source.names_in(node) == wanted]
    adding = [node for node in mentions if _adds(node, parents)]
    loops = {id(loop) for node in adding for loop in _around(node, parents, _LOOPS)}
    functions = {id(_function_of(node, parents)) for node in adding}
    is_local = not name.startswith("self.") and any(
        isinstance(node.ctx, ast.Store) and not isinstance(_function_of(node, parents), ast.Module) for node in mentions
    )
    for node in mentions:
        if not isinstance(node.ctx, ast.Load) or _adds(node, parents) or _counts(node, parents):
            continue
        if any(id(loop) in loops for loop in _around(node, parents, _LOOPS)):
            return True
        function = _function_of(node, parents)
        if not is_local and id(function) not in functions and not isinstance(function, ast.Module):
            return True
    return False


def _function_of(node: ast.AST, parents: dict[int, ast.AST]) -> ast.AST:
    return next(_around(node, parents, _SCOPES))


def _around(node: ast.AST, parents: dict[int, ast.AST], kinds: tuple[type, ...]) -> Iterator[ast.AST]:
    """The nodes of some kinds that a node is within, the innermost first."""
    while (above := parents.get(id(node))) is not None:
        # What a loop goes over is read before it.
        if isinstance(above, kinds) and not (isinstance(above, (ast.For, ast.AsyncFor)) and node is above.iter):
            yield above
        node = above


def _adds(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    """Whether a mention is of the kind ``learners.append(...)``, ``learners[...] = ...`` or ``learners += ...``."""
    above = parents[id(node)]
    if isinstance(above, ast.Subscript):
        return isinstance(above.ctx, ast.Store)
    if isinstance(above, ast.AugAssign):
        return above.target is node
    return isinstance(above, ast.Attribute) and above.attr in ADDING


def _counts(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    above = parents[id(node)]
    return isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in ("len", "print")
