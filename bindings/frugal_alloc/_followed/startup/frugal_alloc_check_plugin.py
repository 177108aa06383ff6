"""The plugin that pytest is told to load by this name: ``frugal_alloc._check.pytest_watch``.

It lies in a folder that is on PYTHONPATH, since the Python that pytest runs in may not have the package.
"""

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if "frugal_alloc" not in sys.modules:
    import importlib.util

    path = os.path.join(PACKAGE, "__init__.py")
    spec = importlib.util.spec_from_file_location("frugal_alloc", path, submodule_search_locations=[PACKAGE])
    module = sys.modules["frugal_alloc"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

from frugal_alloc._check.pytest_watch import *  # noqa: E402, F403
