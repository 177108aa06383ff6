"""Refuses what goes beyond the limits that neither ruff, import-linter nor clang-tidy has.

    tools/house_limits.py FILE...

These are lines of files and of Python functions, modules of tests with one name, and circles of includes: among our C++
files, where a header and the source of the same name are one, and among their folders. Bazel refuses circles of targets
alone; clang-tidy 14, which is the project's, has no check of headers.
"""

from __future__ import annotations

import ast
import collections
import graphlib
import pathlib
import re
import sys
from collections.abc import Callable, Iterator

MOST_LINES = {".h": 300, ".cc": 450, ".py": 450, "": 450}
MOST_FUNCTION_LINES = 50  # Python's; .clang-tidy has C++'s
LAYERS = ("allocator", "cuda", "simulated_gpu", "bindings")
# Where a header's path does not begin at the repository's root, but below this folder.
PUBLIC_HEADERS = pathlib.Path("bindings/include")
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^">]+)[">]', re.MULTILINE)


def long_file(path: pathlib.Path) -> Iterator[str]:
    text = path.read_text()
    lines = len(text.splitlines())
    if lines > MOST_LINES[path.suffix]:
        yield f"{path}: {lines} lines, limit {MOST_LINES[path.suffix]}"
    for node in ast.walk(ast.parse("" if path.suffix in (".h", ".cc") else text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, limit {MOST_FUNCTION_LINES}"


def same_names(files: list[pathlib.Path]) -> Iterator[str]:
    """pytest imports the tests' modules by their bare names, so of two with one name it may take the wrong one."""
    named = collections.defaultdict(list)
    for path in files:
        if "tests" in path.parts and path.suffix == ".py" and path.stem not in ("conftest", "__init__"):
            named[path.stem].append(str(path))
    for same in named.values():
        if len(same) > 1:
            yield f"one name for pytest: {', '.join(same)}; rename all but one"


def circle(files: list[pathlib.Path], kind: str, place: Callable[[pathlib.Path], pathlib.Path]) -> Iterator[str]:
    """A way from one of the files' places back to it, if there is one. What is under a condition counts, too."""
    files = [path for path in files if path.suffix in (".h", ".cc") and path.parts[0] in LAYERS]
    graph = collections.defaultdict(set)
    for file in files:
        named = INCLUDE.findall(file.read_text())
        included = {path for name in named for path in (pathlib.Path(name), PUBLIC_HEADERS / name)}
        graph[place(file)] |= {place(other) for other in included.intersection(files)} - {place(file)}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield f"{kind} include each other: {' -> '.join(map(str, reversed(error.args[1])))}"


def main(*names: str) -> int:
    files = [pathlib.Path(name) for name in names]
    found = [*same_names(files), *(complaint for path in files for complaint in long_file(path))]
    found += circle(files, "files", lambda file: file.with_suffix(""))
    found += circle(files, "folders", lambda file: file.parent)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
