"""Which Python files of the tests would be taken for each other.

pytest imports the files of every folder by their bare names, all into one session. Of two with one name it refuses the
second, and every test in it, but only where both are collected.
"""

from __future__ import annotations

import ast
import collections
import pathlib

SHARED = "conftest"  # pytest itself keeps these apart, by folder


def found(root: pathlib.Path) -> list[str]:
    """A line for each name that several files have, and for each import of a conftest.py."""
    named = collections.defaultdict(list)
    lines = []
    for path in sorted((root / "tests").rglob("*.py")):
        named[path.stem].append(str(path.relative_to(root)))
        lines += [
            f"{path.relative_to(root)}:{line}: imports conftest, which may be another folder's; move what it needs"
            for line in imports_of_conftest(path)
        ]
    same = [paths for name, paths in named.items() if len(paths) > 1 and name != SHARED]
    return [f"one name for pytest: {', '.join(paths)}; rename all but one" for paths in same] + lines


def imports_of_conftest(path: pathlib.Path) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if (isinstance(node, ast.ImportFrom) and node.module == SHARED)
        or (isinstance(node, ast.Import) and any(alias.name == SHARED for alias in node.names))
    ]
