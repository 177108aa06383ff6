"""Python imports this at its start in what ``frugal-alloc check`` runs, and the processes that it starts.

Once PyTorch has been imported, what it takes of the GPU's memory is followed. A program that does not import torch goes
on as it would without.
"""

import os
import sys
from importlib.machinery import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(HERE))


def _load_startup():
    name = "frugal_alloc_at_startup"
    module = type(sys)(name)
    SourceFileLoader(name, os.path.join(PACKAGE, "_at_startup.py")).exec_module(module)
    return module


def _follow():
    # By path: the interpreter may be one that has another version of this package, or none.
    if "frugal_alloc" not in sys.modules:
        startup.load("frugal_alloc", os.path.join(PACKAGE, "__init__.py"), PACKAGE)
    from frugal_alloc._check import recorder

    recorder.start()


startup = _load_startup()
if "FRUGAL_CHECK_FOLDER" in os.environ:
    startup.after_torch(_follow)
startup.import_next_sitecustomize(HERE)
