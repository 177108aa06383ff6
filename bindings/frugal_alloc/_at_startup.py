"""What is done as an interpreter starts, before the program's first line.

Loaded by its path, too, by a ``sitecustomize`` of ours in an interpreter that may not find this package: so it imports
nothing of it, and little else, since every Python process pays for it.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType


class _Finder:
    """Finds torch as the finders after it would, and calls back when it has been imported, once."""

    def __init__(self, callback: FunctionType) -> None:
        self._callback = callback

    def find_spec(
        self, name: str, path: list[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        # Looking for torch does not mean importing it: libraries look first, to learn whether it is there.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                self._wrap(spec)
                return spec
        return None

    def _wrap(self, spec: ModuleSpec) -> None:
        execute = spec.loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._callback()

        spec.loader.exec_module = execute_and_call


def after_torch(callback: FunctionType) -> None:
    """Calls back as soon as torch has been imported: now, later or never. Does not import it."""
    if "torch" in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, _Finder(callback))


def load(name: str, path: str, folder: str | None = None) -> ModuleType:
    """Loads the module, or the package in `folder`, from the file at `path`, wherever Python would look for it."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folder and [folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def import_next_sitecustomize(folder: str) -> None:
    """Imports the ``sitecustomize`` that would have been, if `folder`, first on PYTHONPATH, had not come before it."""
    import importlib.machinery

    paths = [os.path.abspath(entry or ".") for entry in sys.path]
    after = sys.path[paths.index(folder) + 1 :] if folder in paths else sys.path
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", after)
    if spec is not None and spec.origin:
        load("sitecustomize", spec.origin)
