"""Python imports this at its start where this folder is on PYTHONPATH; ``__init__`` has what it does."""

import os
import sys
from importlib.machinery import SourceFileLoader

startup = type(sys)("frugal_alloc_startup")
startup.__file__ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__init__.py")
SourceFileLoader(startup.__name__, startup.__file__).exec_module(startup)
startup.start()
