"""Python imports this at its start on the simulated GPU, and PyTorch gets what it needs there once it is imported.

With FRUGAL_SIM_VALUES=cpu that is the computation of values, otherwise plausible answers where values would decide;
with FRUGAL_SIM_ORDER=1 or FRUGAL_SIM_LATE=1 operators also declare what memory they touch. A program that does not
import torch goes on as it would without.
"""

import os
import sys
from importlib.machinery import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)


def _load_startup():
    name = "frugal_alloc_at_startup"
    module = type(sys)(name)
    SourceFileLoader(name, os.path.join(PACKAGE, "_at_startup.py")).exec_module(module)
    return module


def _start_companion():
    name = "_values" if os.environ.get("FRUGAL_SIM_VALUES") == "cpu" else "_plausible"
    startup.load("frugal_simulated" + name, os.path.join(PACKAGE, name + ".py")).start()
    if "1" in (os.environ.get("FRUGAL_SIM_ORDER"), os.environ.get("FRUGAL_SIM_LATE")):
        # Last, so that it sees what the program calls rather than what the values take.
        startup.load("frugal_simulated_accesses", os.path.join(PACKAGE, "_accesses.py")).start()


startup = _load_startup()
startup.after_torch(_start_companion)
startup.import_next_sitecustomize(HERE)
