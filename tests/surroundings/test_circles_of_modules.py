"""No module of the package imports itself, by any way."""

from __future__ import annotations

import graphlib
import sys
from pathlib import Path

import grimp
import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "bindings" / "frugal_alloc"


def _imports() -> dict[str, set[str]]:
    """By module of the package, those modules of it that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        # This checkout's, also where another's is installed.
        patch.delitem(sys.modules, PACKAGE.name, raising=False)
        patch.syspath_prepend(PACKAGE.parent)
        graph = grimp.build_graph(PACKAGE.name, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_circle_of_modules() -> None:
    """Import-linter's contracts leave out what a folder's ``__init__.py`` imports of the folder."""
    imports = _imports()
    # Its version alone, which is there before anything else of it.
    imports["frugal_alloc._report.document"] -= {PACKAGE.name}
    graphlib.TopologicalSorter(imports).prepare()
