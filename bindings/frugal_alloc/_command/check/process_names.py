"""How a process is told apart from the others of a run, by a name that is the same in each run."""

from __future__ import annotations

import os
import sys

# pytest's, in the environment of what a test starts: "tests/test_a.py::test_b (call)".
_TEST = "PYTEST_CURRENT_TEST"
_test_at_start = os.environ.get(_TEST, "")


def name_of_this(root: str) -> str:
    """Of this process: "train.py", "train.py rank 1", or "tests/test_a.py::test_b > train.py"."""
    name = _program(root)
    if rank := os.environ.get("RANK"):
        name += f" rank {rank}"
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        name += f" > {processes.current_process().name}"
    test = starting_test()
    return f"{test} > {name}" if test else name


def starting_test() -> str:
    """The test that has started this process; "": none has. What a fixture starts is of no one test."""
    return _test_at_start.removesuffix(" (call)") if _test_at_start.endswith(" (call)") else ""


def _program(root: str) -> str:
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return f"-m {spec.name.removesuffix('.__main__')}"
    if not file:
        return "python -c"
    relative = os.path.relpath(os.path.realpath(file), root)
    return os.path.basename(file) if relative.startswith("..") else relative
