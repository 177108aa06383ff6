"""The plugin that pytest is told to load by this name: ``frugal_alloc._check.pytest_watch``.

It lies in a folder that is on PYTHONPATH, since the Python that pytest runs in may not have the package.
"""

import importlib.util
import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _load_package():
    path = os.path.join(PACKAGE, "__init__.py")
    spec = importlib.util.spec_from_file_location("frugal_alloc", path, submodule_search_locations=[PACKAGE])
    module = importlib.util.module_from_spec(spec)
    sys.modules["frugal_alloc"] = module
    spec.loader.exec_module(module)


if "frugal_alloc" not in sys.modules:
    _load_package()

from frugal_alloc._check.pytest_watch import *  # noqa: E402, F403
