"""Python imports this at its start on the simulated GPU, and PyTorch gets what it needs there once it is imported.

That is the values of its tensors, all of them with FRUGAL_SIM_VALUES=cpu, otherwise those on which programs decide;
with FRUGAL_SIM_ORDER=1 or FRUGAL_SIM_LATE=1 operators also declare what memory they touch. NVRTC finds its builtins,
which PyTorch sees to only with CUDA's own runtime. A program that does not import torch goes on as it would without.
"""

import os
import sys
from importlib.machinery import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
SIMULATION = os.path.dirname(HERE)
PACKAGE = os.path.dirname(SIMULATION)


def _load_startup():
    name = "frugal_alloc_at_startup"
    module = type(sys)(name)
    SourceFileLoader(name, os.path.join(PACKAGE, "_at_startup.py")).exec_module(module)
    return module


def _load_builtins_of_nvrtc():
    files = startup.load("frugal_simulated_nvrtc_files", os.path.join(PACKAGE, "_nvrtc_files.py"))
    packages = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["torch"].__file__)))
    for library in files.find([packages]):
        files.load_builtins(library)


def _start_companion():
    _load_builtins_of_nvrtc()
    uncompiled = startup.load(
        "frugal_simulated_uncompiled", os.path.join(PACKAGE, "_program", "uncompiled.py")
    ).uncompiled
    folder = os.path.join(SIMULATION, "values")
    values = startup.load("frugal_simulated_values", os.path.join(folder, "__init__.py"), folder)
    values.start(uncompiled)
    if "1" in (os.environ.get("FRUGAL_SIM_ORDER"), os.environ.get("FRUGAL_SIM_LATE")):
        # Last, so that it sees what the program calls rather than what the values take.
        values.declare_accesses()


startup = _load_startup()
startup.after_torch(_start_companion)
startup.import_next_sitecustomize(HERE)
