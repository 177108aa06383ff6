"""Python imports this at its start on the simulated GPU, and PyTorch gets what it needs there once it is imported.

With FRUGAL_SIM_VALUES=cpu that is the computation of values, otherwise plausible answers where values would decide. A
program that does not import torch goes on as it would without. This folder comes first on PYTHONPATH, so the
``sitecustomize`` that would have been imported is imported from here.
"""

import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class _AfterTorch(importlib.machinery.PathFinder):
    """Finds torch, and starts its companion as soon as it is imported; looking for it alone changes nothing."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname != "torch":
            return None
        others = (finder for finder in sys.meta_path if finder is not cls and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_start(module):
                execute(module)
                sys.meta_path.remove(cls)
                name = "_values" if os.environ.get("FRUGAL_SIM_VALUES") == "cpu" else "_plausible"
                _load("frugal_simulated" + name, os.path.join(os.path.dirname(HERE), name + ".py")).start()

            spec.loader.exec_module = execute_and_start
        return spec


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _import_next():
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.origin:
        _load("sitecustomize", spec.origin)


sys.meta_path.insert(0, _AfterTorch)
_import_next()
