"""Who imports whom in the Python package: no circle of modules, and none of rooms.

A room is a folder of the package, or a module beside the folders. What is imported within a function, or for type
checkers alone, counts, too.
"""

from __future__ import annotations

import ast
import collections
import pathlib
from collections.abc import Iterator

from circles import Graph, circles_of

PACKAGE = "frugal_alloc"


def circles(package: pathlib.Path) -> list[str]:
    """A line for each circle of modules, then for each of rooms; "a -> b -> a"."""
    modules = imports(package)
    rooms: Graph = collections.defaultdict(set)
    for module, imported in modules.items():
        rooms[room(module)] |= {room(other) for other in imported} - {room(module)}
    return [f"modules import each other: {circle}" for circle in circles_of(modules)] + [
        f"rooms import each other: {circle}" for circle in circles_of(rooms)
    ]


def room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def imports(package: pathlib.Path) -> Graph:
    """By module of the package, those modules of it that it imports."""
    files = {_name(path, package): path for path in package.rglob("*.py")}
    return {module: set(_imported(module, path, files)) - {module} for module, path in files.items()}


def _name(path: pathlib.Path, package: pathlib.Path) -> str:
    parts = (PACKAGE, *path.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(module: str, path: pathlib.Path, files: dict[str, pathlib.Path]) -> Iterator[str]:
    parents = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in files)
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for name in node.names:
                # The name of a module in it, or something that the module itself defines.
                target = f"{base}.{name.name}"
                if target in files:
                    yield target
                elif base in files and base != PACKAGE:
                    # What the package's face gives is there before its modules are.
                    yield base
