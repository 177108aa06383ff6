"""Enables the allocator in a program that does not ask for it: FRUGAL_ALLOC=1 with the hook of ``frugal-alloc
install-hook``, or a child of ``frugal-alloc run``.

Loaded by its path, before the package can be or need be.
"""

import os
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType

PACKAGE = os.path.dirname(os.path.abspath(__file__))
# Marks an interpreter in which this has begun, from whichever copy of this file.
_BEGUN = "_frugal_alloc_enabling"


def enable_after_torch() -> None:
    """Enables the allocator as soon as torch has been imported.

    What stands in the way gets one line on stderr, and the program goes on with PyTorch's own allocator.
    """
    # A virtual environment's .pth files are run twice, and a child of `frugal-alloc run` may have the hook, too.
    if hasattr(sys, _BEGUN):
        return
    setattr(sys, _BEGUN, True)
    value = os.environ["FRUGAL_ALLOC"]
    if value != "1":
        _tell(f"FRUGAL_ALLOC={value} is not possible; it is 0 (off) or 1 (on)")
    else:
        startup = ModuleType("frugal_alloc_at_startup")
        SourceFileLoader(startup.__name__, os.path.join(PACKAGE, "_at_startup.py")).exec_module(startup)
        startup.after_torch(lambda: _enable(startup))


def _enable(startup: ModuleType) -> None:
    # A program's own import of torch must not fail because of us, whatever goes wrong here.
    try:
        if "frugal_alloc" not in sys.modules:
            # By path: the interpreter may be one that has another version of this package, or none.
            startup.load("frugal_alloc", os.path.join(PACKAGE, "__init__.py"), PACKAGE)
        sys.modules["frugal_alloc"].enable()
    except Exception as error:
        if (interruptions := sys.modules.get("frugal_alloc._interruptions")) is not None:
            interruptions.pass_on(error)
        _tell(str(error).strip().split("\n")[0] or type(error).__name__)


def _tell(reason: str) -> None:
    # The workers of a pool would each say what its parent has said.
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        print(f"frugal_alloc: not used: {reason}", file=sys.stderr)
