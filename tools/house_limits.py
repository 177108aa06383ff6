"""Refuses files beyond the limits that neither ruff nor clang-tidy has.

    tools/house_limits.py FILE...

These are lines of files and of Python functions, and modules of tests with one name.
"""

from __future__ import annotations

import ast
import collections
import pathlib
import sys
from collections.abc import Iterator

MOST_LINES = {".h": 300, ".cc": 450, ".py": 450, "": 450}
MOST_FUNCTION_LINES = 50  # Python's; .clang-tidy has C++'s


def long_functions(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {lines} lines, limit {MOST_FUNCTION_LINES}"


def same_names(files: list[pathlib.Path]) -> list[str]:
    """pytest imports the tests' modules by their bare names, so of two with one name it may take the wrong one."""
    named = collections.defaultdict(list)
    for path in files:
        if "tests" in path.parts and path.suffix == ".py" and path.stem not in ("conftest", "__init__"):
            named[path.stem].append(str(path))
    return [f"one name for pytest: {', '.join(same)}; rename all but one" for same in named.values() if len(same) > 1]


def main(*names: str) -> int:
    files = [pathlib.Path(name) for name in names]
    found = same_names(files)
    for path in files:
        text = path.read_text()
        lines = len(text.splitlines())
        if lines > MOST_LINES[path.suffix]:
            found.append(f"{path}: {lines} lines, limit {MOST_LINES[path.suffix]}")
        if path.suffix not in (".h", ".cc"):
            found += [f"{path}:{line}: {complaint}" for line, complaint in long_functions(text)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
