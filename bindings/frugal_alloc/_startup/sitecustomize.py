"""Python imports this at its start in the children of a program that ``frugal-alloc run`` runs.

This folder comes first on PYTHONPATH. With FRUGAL_ALLOC=1 the allocator is enabled once PyTorch is imported; a program
that does not import torch goes on as it would without.
"""

import os
import sys
from importlib.machinery import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)


def _load(name):
    module = type(sys)("frugal_alloc" + name)
    module.__file__ = os.path.join(PACKAGE, name + ".py")
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    return module


startup = _load("_at_startup")
if os.environ.get("FRUGAL_ALLOC", "0") not in ("", "0"):
    _load("_enabling").enable_after_torch()
startup.import_next_sitecustomize(HERE)
