"""Each room of the Python package says what it imports from, as it is; and no module imports itself by any way."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections import defaultdict
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "frugal_alloc"


def _imports() -> dict[str, set[str]]:
    """By module of the package, those modules of it that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        # This checkout's, also where another's is installed.
        patch.delitem(sys.modules, PACKAGE.name, raising=False)
        patch.syspath_prepend(PACKAGE.parent)
        graph = grimp.build_graph(PACKAGE.name, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def _imported_rooms() -> dict[str, set[str]]:
    """By room, the others that it imports from; not the package's own face."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, imported in IMPORTS.items():
        for other in imported - {PACKAGE.name}:
            if _room(other) != _room(module):
                found[_room(module)].add(_room(other))
    return found


def _room(module: str) -> str:
    return ".".join(module.split(".")[1:2])


IMPORTS = _imports()
IMPORTED = _imported_rooms()
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("_*/__init__.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_room_names_what_it_imports_from(room: str) -> None:
    text = " ".join(ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())).split())
    named = re.search(r"Imports from (.+?)\.(?: |$)|Imports nothing of the package", text)
    assert named, text
    assert set(re.findall(r"``(\w+)``", named[1] or "")) == IMPORTED[room]


def test_no_circle_of_modules() -> None:
    """Import-linter's contracts leave out what a folder's ``__init__.py`` imports of the folder."""
    # Its version alone, which is there before anything else of it.
    modules = {**IMPORTS, "frugal_alloc._report.document": IMPORTS["frugal_alloc._report.document"] - {PACKAGE.name}}
    graphlib.TopologicalSorter(modules).prepare()
