"""Python classes with more public functions than a reader keeps in mind.

A class's own functions count, not those of the classes above it. A property is one, with its setter.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

MOST_FUNCTIONS = 15
FOLDERS = ("bindings", "bench", "tools", "tests", "docs", "examples")


def found(root: pathlib.Path) -> list[str]:
    """A line for each class above the limit, in a checkout."""
    return [line for path in _sources(root) for line in _above_limit(path.read_text(), path.relative_to(root))]


def _sources(root: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and (path.suffix == ".py" or (not path.suffix and _is_script(path))):
                yield path


def _is_script(path: pathlib.Path) -> bool:
    with open(path, "rb") as file:
        return re.match(rb"#!.*\bpython3?\b", file.readline()) is not None


def _above_limit(source: str, path: pathlib.Path) -> list[str]:
    classes = [node for node in ast.walk(ast.parse(source, str(path))) if isinstance(node, ast.ClassDef)]
    return [
        f"{path}:{node.lineno}: class {node.name} has {count} public functions, limit {MOST_FUNCTIONS}"
        for node in classes
        if (count := len(_public(node))) > MOST_FUNCTIONS
    ]


def _public(node: ast.ClassDef) -> set[str]:
    functions = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if not function.name.startswith("_")}
