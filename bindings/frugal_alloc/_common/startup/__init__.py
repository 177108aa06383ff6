"""What is started in an interpreter before the program's first line, or as soon as it has imported PyTorch.

The folder lies on PYTHONPATH, for its ``sitecustomize`` alone, and FRUGAL_START names what that starts: see ``add``.
With the hook of ``frugal-alloc install-hook`` FRUGAL_ALLOC=1 is enough. This file is loaded by its path, since the
interpreter may not find the package: so it needs nothing of it, and little else, as every Python process pays for it.
"""

import os
import sys
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(FOLDER))
_VARIABLE = "FRUGAL_START"
# Mark an interpreter in which enabling has begun, and one that finds the stand-in, from whichever copy of this file.
_BEGUN = "_frugal_alloc_enabling"
_STANDING_IN = "_frugal_alloc_standing_in"
_MEMORY_SAVER = "torch_memory_saver"


def add(name: str, environment: dict[str, str]) -> None:
    """Has Python processes with this environment start what `name` stands for, before what they start already.

    A program that does not import torch goes on as it would without.
    """
    prepend(environment, "PYTHONPATH", FOLDER)
    prepend(environment, _VARIABLE, name, ",")


def prepend(environment: dict[str, str], variable: str, entry: str, separator: str = ":") -> None:
    """Puts the entry first in a list, once; what follows keeps its order."""
    others = [other for other in environment.get(variable, "").split(separator) if other and other != entry]
    environment[variable] = separator.join([entry, *others])


def start() -> None:
    """Starts what the environment names, then what would have been started if our ``sitecustomize`` were not there."""
    for name in os.environ.get(_VARIABLE, "").split(","):
        if name in _STARTS:
            _STARTS[name]()
    _import_next_sitecustomize()


def enable_after_torch() -> None:
    """Enables the allocator as soon as torch has been imported, if FRUGAL_ALLOC says so.

    What stands in the way gets one line on stderr, and the program goes on with PyTorch's own allocator.
    """
    value = os.environ.get("FRUGAL_ALLOC", "0")
    # A virtual environment's .pth files are run twice, and a child of `frugal-alloc run` may have the hook, too.
    if value in ("", "0") or hasattr(sys, _BEGUN):
        return
    setattr(sys, _BEGUN, True)
    if value == "1":
        stand_in_for_memory_saver()
        after_import("torch", _enable)
    else:
        _warn(f"FRUGAL_ALLOC={value} is not possible; it is 0 (off) or 1 (on)")


def _follow() -> None:
    # A program may have dropped the variable that says who follows it.
    if "FRUGAL_FOLLOW" in os.environ:
        after_import("torch", lambda: module(module("_planning.followed").order()["follower"]).start())


_STARTS = {
    "allocator": enable_after_torch,
    "follower": _follow,
}


def _enable() -> None:
    # A program's own import of torch must not fail because of us, whatever goes wrong here.
    try:
        _load_package().enable()
    except Exception as error:
        if (interruptions := sys.modules.get("frugal_alloc._interruptions")) is not None:
            interruptions.pass_on(error)
        _warn(str(error).strip().split("\n")[0] or type(error).__name__)


def _warn(reason: str) -> None:
    # The workers of a pool would each say what its parent has said.
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        print(f"frugal_alloc: not used: {reason}", file=sys.stderr)


def module(name: str) -> ModuleType:
    """A module of this package, wherever that lies: the interpreter may have another version of it, or none."""
    import importlib

    _load_package()
    return importlib.import_module(f"frugal_alloc.{name}")


def _load_package() -> ModuleType:
    if "frugal_alloc" not in sys.modules:
        _load("frugal_alloc", os.path.join(PACKAGE, "__init__.py"), PACKAGE)
    return sys.modules["frugal_alloc"]


def _load(name: str, path: str, folder: str | None = None) -> ModuleType:
    """Loads the module, or the package in `folder`, from the file at `path`, wherever Python would look for it."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folder and [folder])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class _Finder:
    """Finds a module as the finders after it would, and calls back when it has been imported, once."""

    def __init__(self, name: str, callback: FunctionType) -> None:
        self._name = name
        self._callback = callback

    def find_spec(
        self, name: str, path: list[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
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

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._callback()

        spec.loader.exec_module = execute_and_call


def after_import(name: str, callback: FunctionType) -> None:
    """Calls back as soon as the module has been imported: now, later or never. Does not import it."""
    if name in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, _Finder(name, callback))


class _StandIn:
    """Finds our module of the same interface under a library's name."""

    def find_spec(
        self, name: str, path: list[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == _MEMORY_SAVER else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, placeholder: ModuleType) -> None:
        # The import goes on with what it finds there.
        sys.modules[_MEMORY_SAVER] = module(f"integrations.{_MEMORY_SAVER}")


def stand_in_for_memory_saver() -> None:
    """Has ``import torch_memory_saver`` find ours if no other is installed, or if FRUGAL_TORCH_MEMORY_SAVER=1. Once."""
    if not hasattr(sys, _STANDING_IN):
        setattr(sys, _STANDING_IN, True)
        is_to_yield = os.environ.get("FRUGAL_TORCH_MEMORY_SAVER") == "1"
        sys.meta_path.insert(0 if is_to_yield else len(sys.meta_path), _StandIn())


def _import_next_sitecustomize() -> None:
    import importlib.machinery

    paths = [os.path.abspath(entry or ".") for entry in sys.path]
    after = sys.path[paths.index(FOLDER) + 1 :] if FOLDER in paths else sys.path
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", after)
    if spec is not None and spec.origin:
        _load("sitecustomize", spec.origin)
