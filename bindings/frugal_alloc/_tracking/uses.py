"""Whether a program's source reads what it gathers, or only gathers it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .assignments import tree_of

_ADDING = ("append", "appendleft", "add", "extend", "insert", "update", "setdefault")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def is_used_in_passing(file: str, name: str) -> bool:
    """Whether the entries of a variable, or an attribute, are read as the program goes on: in the loop that adds to it,
    or in another function. What is read once all is done, is not.

    Args:
        file: Where it is assigned.
        name: "learners", or an attribute's "self.learners".
    """
    tree = tree_of(file)
    if tree is None:
        return False
    parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    mentions = [node for node in ast.walk(tree) if _is_named(node, name)]
    adding = [node for node in mentions if _adds(node, parents)]
    loops = {id(loop) for node in adding for loop in _around(node, parents, _LOOPS)}
    functions = {id(next(_around(node, parents, _SCOPES))) for node in adding}
    is_local = not name.startswith("self.") and any(
        isinstance(node.ctx, ast.Store) and not isinstance(next(_around(node, parents, _SCOPES)), ast.Module)
        for node in mentions
    )
    for node in mentions:
        if not isinstance(node.ctx, ast.Load) or _adds(node, parents) or _counts(node, parents):
            continue
        if any(id(loop) in loops for loop in _around(node, parents, _LOOPS)):
            return True
        function = next(_around(node, parents, _SCOPES))
        if not is_local and id(function) not in functions and not isinstance(function, ast.Module):
            return True
    return False


def _is_named(node: ast.AST, name: str) -> bool:
    if name.startswith("self."):
        return isinstance(node, ast.Attribute) and node.attr == name.removeprefix("self.")
    return isinstance(node, ast.Name) and node.id == name


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
    return isinstance(above, ast.Attribute) and above.attr in _ADDING


def _counts(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    above = parents[id(node)]
    return isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in ("len", "print")
