"""The source of the user's program, parsed: the only reader of it."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

# A larger file is generated, and takes too long to parse in an error or a report.
_MOST_LINES = 20_000
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def tree_of(file: str) -> ast.AST | None:
    """A source file, parsed; None: it is not there, no Python, or too large."""
    return _parsed(_text_of(file))


def forget() -> None:
    """Lets go of the trees, which are large."""
    _parsed.cache_clear()
    statements.cache_clear()


def _text_of(file: str) -> str:
    lines = linecache.getlines(file)
    return "".join(lines) if len(lines) <= _MOST_LINES else ""


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions_of(tree: ast.AST, name: str) -> list[ast.AST]:
    """The functions of a name, or for "<module>" the whole."""
    if name == "<module>":
        return [tree]
    return [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) and node.name == name]


def code_of(file: str, function: str) -> CodeType | None:
    """What a function of the file, or "<module>", is compiled to; None: it has none, or is no Python."""
    try:
        waiting = [compile(_text_of(file), file, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    while waiting:
        code = waiting.pop()
        if code.co_name == function:
            return code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return None


class Binding(NamedTuple):
    """Part of a statement that gives some targets their value, or what is in it."""

    targets: list[ast.expr]
    value: ast.expr | None
    statement: ast.AST


def bindings(body: ast.AST) -> Iterator[Binding]:
    """All in a function or module, without those of comprehensions, whose variables are their own."""
    for node in ast.walk(body):
        if isinstance(node, ast.Assign):
            yield Binding(node.targets, node.value, node)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            yield Binding([node.target], node.value, node)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield Binding([node.target], node.iter, node)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    yield Binding([item.optional_vars], item.context_expr, node)


def line_of_name(file: str, function: str, name: str) -> int | None:
    """Where `name` is first assigned in a function, or ("<module>") at the top of the file."""
    tree = tree_of(file)
    bodies = functions_of(tree, function) if tree is not None else []
    return next((line for body in bodies if (line := _first_line(body, {name})) is not None), None)


def line_of_attribute(file: str, class_name: str, attribute: str) -> int | None:
    """Where ``self.attribute`` is first assigned in a class of the file."""
    tree = tree_of(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            line = _first_line(node, {attribute, "." + attribute})
            if line is not None:
                return line
    return None


def _first_line(body: ast.AST, names: set[str]) -> int | None:
    """Of the statements that assign one of the names; an attribute's is ".name"."""
    lines = []
    for binding in bindings(body):
        parts = [part for target in binding.targets for part in ast.walk(target)]
        stored = [part for part in parts if isinstance(getattr(part, "ctx", None), ast.Store)]
        if names & set().union(*map(names_in, stored)):
            lines.append(binding.statement.lineno)  # type: ignore[attr-defined]
    return min(lines, default=None)


def names_in(node: ast.AST) -> set[str]:
    """The variable, or the attribute as ".name", that a node is; none for another."""
    if isinstance(node, ast.Name):
        return {node.id}
    return {"." + node.attr} if isinstance(node, ast.Attribute) else set()


class Statement(NamedTuple):
    """The lines of a statement, of a compound one the header's."""

    first: int
    last: int
    is_loop_header: bool


@functools.lru_cache(maxsize=64)
def statements(file: str, function: str, first_line: int) -> list[Statement]:
    """All of one function, given by its first line, or of a module. Its own only: what is nested has other variables.

    Returns none where the source is not there, or is not what runs.
    """
    tree = tree_of(file)
    if tree is None:
        return []
    if function == "<module>":
        return list(_statements_of(tree))
    return next((list(_statements_of(one)) for one in functions_of(tree, function) if _begins(one) == first_line), [])


def _begins(function: ast.AST) -> int:
    decorators = getattr(function, "decorator_list", ())
    return min([function.lineno, *(decorator.lineno for decorator in decorators)])  # type: ignore[attr-defined]


def _statements_of(scope: ast.AST) -> Iterator[Statement]:
    waiting = list(getattr(scope, "body", []))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            nested = isinstance(node, (*_FUNCTIONS, ast.ClassDef))
            last = node.end_lineno or node.lineno
            if isinstance(body, list) and body and not nested:
                last = max(node.lineno, body[0].lineno - 1)
            yield Statement(node.lineno, last, isinstance(node, _LOOPS))
            if nested:
                continue
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, field, []))


def is_in_handler(file: str, line: int) -> bool:
    """Whether a line is in an ``except`` block."""
    tree = tree_of(file)
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)] if tree is not None else []
    return any(node.lineno <= line <= (node.end_lineno or 0) for node in handlers)


def only_called(file: str) -> set[str]:
    """The names of the file's functions that are bound once and used for nothing but calls."""
    tree = tree_of(file)
    bound: dict[str, int] = {}
    used: dict[str, int] = {}
    called: dict[str, int] = {}
    plain = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            bound[node.name] = bound.get(node.name, 0) + 1
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                plain.add(node.name)
        elif isinstance(node, ast.Name):
            counts = used if isinstance(node.ctx, ast.Load) else bound
            counts[node.id] = counts.get(node.id, 0) + 1
        elif isinstance(node, ast.alias):
            name = (node.asname or node.name).partition(".")[0]
            bound[name] = bound.get(name, 0) + 1
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called[node.func.id] = called.get(node.func.id, 0) + 1
    return {name for name in plain if bound[name] == 1 and used.get(name, 0) == called.get(name, 0)}
