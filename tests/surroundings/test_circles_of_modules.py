"""No module of a package of ours imports itself, by any way."""

from __future__ import annotations

import graphlib
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]


def _imports(package: Path) -> dict[str, set[str]]:
    """By module of the package, those modules of it that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        # This checkout's, also where another's is installed.
        patch.delitem(sys.modules, package.name, raising=False)
        patch.syspath_prepend(package.parent)
        graph = grimp.build_graph(package.name, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


@pytest.mark.parametrize("package", ["bindings/frugal_alloc", "simulated_gpu/python/simulated_gpu"])
def test_no_circle_of_modules(package: str) -> None:
    """Import-linter's contracts leave out what a folder's ``__init__.py`` imports of the folder."""
    imports = _imports(ROOT / package)
    # Its version alone, which is there before anything else of it.
    imports.get("frugal_alloc._report.document", set()).discard("frugal_alloc")
    graphlib.TopologicalSorter(imports).prepare()
