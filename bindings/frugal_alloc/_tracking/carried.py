"""Whether a variable's next value is computed from the one before, as that of a queue which is concatenated to.

Another variable is made anew each time, as an output is. If it becomes larger, the cause is what it is made from: a
curriculum of longer sequences, or another variable that grows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import CodeType

from .._program.liveness import Flow, read_in_nested
from .assignments import bodies_of, source_of, tree_of

# What they are given they do not change.
_HARMLESS = ("print", "len", "isinstance", "range", "float", "int", "str")


def is_carried(file: str, function: str, name: str) -> bool:
    """Whether a variable goes into its own next value, as far as the source tells: True where that is not known.

    What an inner function sets in an outer one, or in its module, is state that the program keeps on purpose.

    Args:
        file: Where the variable is.
        function: That it is a variable of, or "<module>".
        name: "negatives".
    """
    tree = tree_of(file)
    code = _code_of(file, function)
    if tree is None or code is None:
        return True
    sources: dict[str, set[str]] = {}
    for body in bodies_of(tree, function):
        if any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.walk(body)):
            return True
        for target, origins in _flows(body):
            sources.setdefault(target, set()).update(origins)
    if name not in _reached(sources, sources.get(name, ())):
        return False
    flow = Flow(code)
    return flow.reads_any or name in read_in_nested(code) or name in flow.alive_at_loops()


def _reached(sources: dict[str, set[str]], names: Iterable[str]) -> set[str]:
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(sources.get(name, ()))
    return seen


def _flows(body: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """The names that statements give a value to, or change, each with those that it comes from."""
    for node in ast.walk(body):
        if isinstance(node, ast.Assign):
            yield from _to(node.targets, node.value)
        elif isinstance(node, ast.AugAssign):
            yield from _to([node.target], node.value)
            # It is the same one, which has been added to.
            yield from ((name, {name}) for name in _names(node.target))
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            yield from _to([node.target], node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            yield from _to([node.target], node.iter)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    yield from _to([item.optional_vars], item.context_expr)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from _of_call(node.value)


def _to(targets: list[ast.expr], value: ast.expr) -> Iterator[tuple[str, set[str]]]:
    origins = _names(value)
    for target in targets:
        for name in _names(target):
            yield name, origins


def _of_call(call: ast.Call) -> Iterator[tuple[str, set[str]]]:
    """What is called for its effect changes the object whose method it is, or what it is given."""
    given = set().union(*(_names(one) for one in (*call.args, *(keyword.value for keyword in call.keywords))))
    if isinstance(call.func, ast.Attribute):
        for name in _names(call.func.value):
            yield name, given
    elif not (isinstance(call.func, ast.Name) and call.func.id in _HARMLESS):
        for name in given:
            yield name, given


def _names(node: ast.AST) -> set[str]:
    """Variables, and attributes as ".name": their objects, and what is called, are not among them."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id not in ("self", "cls"):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add("." + part.attr)
    return found


def _code_of(file: str, function: str) -> CodeType | None:
    try:
        module = compile(source_of(file), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    waiting = [module]
    while waiting:
        code = waiting.pop()
        if code.co_name == function:
            return code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return None
