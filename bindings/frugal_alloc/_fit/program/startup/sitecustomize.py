"""Python imports this at its start in the programs that ``frugal-alloc fit`` runs, and the agent starts with torch.

A program that does not import torch goes on as it would without.
"""

import os
import sys
from importlib.machinery import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))


def _load_startup():
    name = "frugal_alloc_at_startup"
    module = type(sys)(name)
    SourceFileLoader(name, os.path.join(PACKAGE, "_at_startup.py")).exec_module(module)
    return module


def _start_agent():
    if "frugal_alloc" not in sys.modules:
        # By path: the interpreter may be one that has another version of this package, or none.
        startup.load("frugal_alloc", os.path.join(PACKAGE, "__init__.py"), PACKAGE)
    from frugal_alloc._fit.program import agent

    agent.start()


startup = _load_startup()
startup.after_torch(_start_agent)
startup.import_next_sitecustomize(HERE)
