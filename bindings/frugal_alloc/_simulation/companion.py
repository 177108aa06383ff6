"""What PyTorch gets in a program on the simulated GPU, once it has been imported.

That is the values of its tensors, all of them with FRUGAL_SIM_VALUES=cpu, otherwise those on which programs decide;
with FRUGAL_SIM_ORDER=1 or FRUGAL_SIM_LATE=1 operators also declare what memory they touch. NVRTC finds its builtins,
which PyTorch sees to only with CUDA's own runtime. Loaded by its path, as all that it loads: so it imports nothing of
the package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)


def start(load: Callable[..., ModuleType]) -> None:
    """Called when torch has been imported; `load` loads a module, or a package in a folder, by its path."""
    nvrtc = load("frugal_simulated_nvrtc_files", os.path.join(HERE, "nvrtc_files.py"))
    packages = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["torch"].__file__)))
    for library in nvrtc.find([packages]):
        nvrtc.load_builtins(library)
    uncompiled = load("frugal_simulated_uncompiled", os.path.join(PACKAGE, "_program", "uncompiled.py")).uncompiled
    folder = os.path.join(HERE, "values")
    values = load("frugal_simulated_values", os.path.join(folder, "__init__.py"), folder)
    values.start(uncompiled)
    if "1" in (os.environ.get("FRUGAL_SIM_ORDER"), os.environ.get("FRUGAL_SIM_LATE")):
        # Last, so that it sees what the program calls rather than what the values take.
        values.declare_accesses()
