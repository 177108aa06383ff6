"""Refuses a circle of includes among our C++ files, and one among their folders.

    tools/cpp_includes.py FILE...

A header and the source of the same name are one file. What is included under a condition counts, too. Bazel refuses
circles of targets, but a target may have many files. clang-tidy has misc-header-include-cycle from version 17 on, for
headers alone, and neither folders nor a source that closes the circle; the project's is 14.
"""

from __future__ import annotations

import collections
import graphlib
import pathlib
import re
import sys
from collections.abc import Callable

# Where a header's path does not begin at the repository's root, but below this folder.
PUBLIC_HEADERS = pathlib.PurePath("bindings/include")
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^">]+)[">]', re.MULTILINE)


def includes(file: pathlib.Path, files: set[pathlib.PurePath]) -> set[pathlib.PurePath]:
    """Those of `files` that one of them includes itself."""
    names = INCLUDE.findall(file.read_text())
    return {path for name in names for path in (pathlib.PurePath(name), PUBLIC_HEADERS / name)} & files


def circle(files: list[pathlib.Path], place: Callable[[pathlib.PurePath], pathlib.PurePath]) -> list[str]:
    """A way from one of the files' places back to it, if there is one."""
    graph = collections.defaultdict(set)
    for file in files:
        graph[place(file)] |= {place(other) for other in includes(file, set(files))} - {place(file)}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [str(one) for one in reversed(error.args[1])]
    return []


def main(*names: str) -> int:
    files = [pathlib.Path(name) for name in names]
    found = {
        "files": circle(files, lambda file: file.with_suffix("")),
        "folders": circle(files, lambda file: file.parent),
    }
    for kind, way in found.items():
        if way:
            print(f"{kind} include each other: {' -> '.join(way)}")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
