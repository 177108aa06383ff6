"""Python imports this at its start where this folder is on PYTHONPATH: as soon as the program has imported PyTorch, its
tensors have values, as FRUGAL_SIM_VALUES says. A program that does not import torch goes on as it would without.

The interpreter may not find the package around it, so it needs nothing of that, and little else, as every Python
process pays for it.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))


def _load(name: str, spec: ModuleSpec) -> None:
    from importlib.util import module_from_spec

    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _start() -> None:
    from importlib.util import spec_from_file_location

    name, folder = "frugal_simulated_values", os.path.join(os.path.dirname(FOLDER), "values")
    file = os.path.join(folder, "__init__.py")
    _load(name, spec_from_file_location(name, file, submodule_search_locations=[folder]))
    sys.modules[name].start()


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


if "FRUGAL_SIM_VALUES" in os.environ:
    _start() if "torch" in sys.modules else sys.meta_path.insert(0, _Finder())
# The one that would have been imported if this were not there.
paths = [os.path.abspath(entry or ".") for entry in sys.path]
after = sys.path[paths.index(FOLDER) + 1 :] if FOLDER in paths else sys.path
if (_next := PathFinder.find_spec("sitecustomize", after)) is not None and _next.origin:
    _load("sitecustomize", _next)
