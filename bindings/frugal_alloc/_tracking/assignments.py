"""The lines of a source file where a name, or an attribute, is first given its value; and the file as it is parsed."""

from __future__ import annotations

import ast
import functools
import linecache

# A larger file is generated, and takes long to parse.
MOST_LINES = 20_000


def line_of_name(file: str, function: str, name: str) -> int | None:
    """Where `name` is assigned in a function, or ("<module>") at the top of the file."""
    tree = tree_of(file)
    if tree is None:
        return None
    for body in bodies_of(tree, function):
        lines = [line for found, line in _assigned(body) if found == name]
        if lines:
            return min(lines)
    return None


def line_of_attribute(file: str, class_name: str, attribute: str) -> int | None:
    """Where ``self.attribute`` is assigned in a class of the file."""
    tree = tree_of(file)
    if tree is None:
        return None
    wanted = "." + attribute
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            lines = [line for found, line in _assigned(node) if found in (wanted, attribute)]
            if lines:
                return min(lines)
    return None


def bodies_of(tree: ast.AST, name: str) -> list[ast.AST]:
    """The functions of a name, or for "<module>" the whole."""
    if name == "<module>":
        return [tree]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == name]


def _assigned(body: ast.AST) -> list[tuple[str, int]]:
    """Names, and attributes as ".name", that the statements within assign, with their lines."""
    found = []
    for node in ast.walk(body):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.NamedExpr)):
            targets = [node.target]
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
        else:
            continue
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    found.append((part.id, node.lineno if hasattr(node, "lineno") else part.lineno))
                elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    found.append(("." + part.attr, node.lineno if hasattr(node, "lineno") else part.lineno))
    return found


def tree_of(file: str) -> ast.AST | None:
    """A source file, parsed; None: it is not there, no Python, or too large."""
    source = source_of(file)
    return _parsed(source) if source else None


def source_of(file: str) -> str:
    """The text of a source file; "" if it is not there, or too large."""
    lines = linecache.getlines(file)
    return "".join(lines) if len(lines) <= MOST_LINES else ""


@functools.lru_cache(maxsize=16)
def _parsed(source: str) -> ast.AST | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
