"""The plugin that pytest is told to load by this name: ``frugal_alloc._planning.check.pytest_watch``.

It lies here, in a folder that is on PYTHONPATH, since the Python that pytest runs in may not have the package.
"""

import os
import sys
from importlib.machinery import SourceFileLoader

startup = type(sys)("frugal_alloc_startup")
startup.__file__ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__init__.py")
SourceFileLoader(startup.__name__, startup.__file__).exec_module(startup)
# What pytest then takes for the plugin.
sys.modules[__name__] = startup.module("_planning.check.pytest_watch")
