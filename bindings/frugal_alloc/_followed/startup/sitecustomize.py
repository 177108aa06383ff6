"""Python imports this at its start in what ``frugal-alloc fit`` and ``check`` run, and the processes that it starts.

Once torch is imported, the one who follows the program starts. A program that does not import it goes on as it would
without.
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
    import importlib

    if "frugal_alloc" not in sys.modules:
        # By path: the interpreter may be one that has another version of this package, or none.
        startup.load("frugal_alloc", os.path.join(PACKAGE, "__init__.py"), PACKAGE)
    from frugal_alloc._followed import order

    importlib.import_module(order.given()["follower"]).start()


startup = _load_startup()
if "FRUGAL_FOLLOW" in os.environ:
    startup.after_torch(_follow)
startup.import_next_sitecustomize(HERE)
