"""Which C++ file includes which: no circle of files, and none of folders.

A header and the source of the same name are one file. What is included under a condition counts, too.
"""

from __future__ import annotations

import collections
import pathlib
import re

from circles import Graph, circles_of

FOLDERS = ("allocator", "cuda", "bindings")
# Where a header's path does not begin at the repository's root, but below this folder.
PUBLIC_HEADERS = pathlib.PurePosixPath("bindings/include")
_INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^">]+)[">]', re.MULTILINE)


def circles(root: pathlib.Path) -> list[str]:
    """A line for each circle of files, then for each of folders; "a -> b -> a"."""
    files: Graph = collections.defaultdict(set)
    folders: Graph = collections.defaultdict(set)
    for path, included in includes(root).items():
        files[_stem(path)] |= {_stem(other) for other in included} - {_stem(path)}
        folders[str(path.parent)] |= {str(other.parent) for other in included} - {str(path.parent)}
    return [f"files include each other: {circle}" for circle in circles_of(files)] + [
        f"folders include each other: {circle}" for circle in circles_of(folders)
    ]


def includes(root: pathlib.Path) -> dict[pathlib.PurePosixPath, set[pathlib.PurePosixPath]]:
    """By file of ours, those files of ours that it includes itself."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in (".cc", ".h")]
    files = {pathlib.PurePosixPath(path.relative_to(root).as_posix()): path.read_text() for path in paths}
    found = {}
    for file, text in files.items():
        names = [pathlib.PurePosixPath(name) for name in _INCLUDE.findall(text)]
        found[file] = {name for name in [*names, *(PUBLIC_HEADERS / name for name in names)] if name in files}
    return found


def _stem(path: pathlib.PurePosixPath) -> str:
    return str(path.with_suffix(""))
