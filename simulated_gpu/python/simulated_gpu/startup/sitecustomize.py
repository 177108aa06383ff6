"""Python imports this at its start where this folder is on PYTHONPATH: as soon as the program has imported PyTorch, its
tensors have values, as FRUGAL_SIM_VALUES says. A program that does not import torch goes on as it would without.

The interpreter may not find the package around it, so it needs nothing of that, and little else, as every Python
process pays for it.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))
VALUES = os.path.join(os.path.dirname(FOLDER), "values")


def _load(name: str, path: str, folder: str | None = None) -> ModuleType:
    """Loads the module, or the package in `folder`, from the file at `path`, wherever Python would look for it."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folder and [folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _start() -> None:
    _load("frugal_simulated_values", os.path.join(VALUES, "__init__.py"), VALUES).start()


class _Finder:
    """Finds torch as the finders after it would, and starts the values when it has been imported, once."""

    def find_spec(
        self, name: str, path: list[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        # Looking for a module does not mean importing it: libraries look for torch first, to learn whether it is there.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                self._wrap(spec)
                return spec
        return None

    def _wrap(self, spec: ModuleSpec) -> None:
        execute = spec.loader.exec_module

        def execute_and_start(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _start()

        spec.loader.exec_module = execute_and_start


def _import_next_sitecustomize() -> None:
    """The one that would have been imported if this were not there."""
    import importlib.machinery

    paths = [os.path.abspath(entry or ".") for entry in sys.path]
    after = sys.path[paths.index(FOLDER) + 1 :] if FOLDER in paths else sys.path
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", after)
    if spec is not None and spec.origin:
        _load("sitecustomize", spec.origin)


if "FRUGAL_SIM_VALUES" in os.environ:
    if "torch" in sys.modules:
        _start()
    else:
        sys.meta_path.insert(0, _Finder())
_import_next_sitecustomize()
