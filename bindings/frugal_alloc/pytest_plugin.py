"""A plugin for pytest: ``@pytest.mark.gpu_no_leak`` fails a test that leaves GPU memory in use.

It comes with the package. Without a GPU, run the tests on a simulated one:
``frugal-alloc simulate --memory 8GiB --values cpu -- python -m pytest``.
"""

from __future__ import annotations

import inspect
import unittest
from typing import Any

import pytest

MARKER = "gpu_no_leak"
_HELP = (
    f"{MARKER}(allow_bytes=0, warmup=1): fail the test if more GPU memory is in use after it than before; it runs "
    "`warmup` times before, for what is made once"
)
_NO_GPU = "no GPU here; on a simulated one: frugal-alloc simulate --memory 8GiB --values cpu -- python -m pytest"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _HELP)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before fixtures are set up, which may need the GPU."""
    marker = item.get_closest_marker(MARKER)
    # Tests marked to be skipped are skipped for their own reason.
    if marker is None or item.get_closest_marker("skip") is not None:
        return
    function = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        pytest.fail(f"{MARKER} knows no coroutines; use frugal_alloc.no_leaks() in the test", pytrace=False)
    if unittest.TestCase in getattr(getattr(item, "cls", None), "__mro__", ()):
        pytest.fail(f"{MARKER} knows no unittest.TestCase; use frugal_alloc.no_leaks() in the test", pytrace=False)
    _arguments(marker)
    _skip_without_gpu()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    marker = pyfuncitem.get_closest_marker(MARKER)
    if marker is None:
        return None
    allow_bytes, warmup = _arguments(marker)
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: value for name, value in pyfuncitem.funcargs.items() if name in names}
    import frugal_alloc

    _enable(frugal_alloc)
    for _ in range(warmup):
        pyfuncitem.obj(**arguments)
    try:
        with frugal_alloc.no_leaks(allow_bytes=allow_bytes):
            pyfuncitem.obj(**arguments)
    except frugal_alloc.LeakError as leak:
        raise _failure(str(leak)) from None
    return True


def _arguments(marker: pytest.Mark) -> tuple[int, int]:
    def checked(allow_bytes: int = 0, warmup: int = 1) -> tuple[int, int]:
        for name, value in (("allow_bytes", allow_bytes), ("warmup", warmup)):
            if not isinstance(value, int) or value < 0:
                raise TypeError(f"{name}={value!r} is not possible, give a whole number")
        return allow_bytes, warmup

    try:
        return checked(*marker.args, **marker.kwargs)
    except TypeError as error:
        reason = str(error).replace("_arguments.<locals>.checked()", MARKER)
        raise _failure(f"{MARKER}: {reason}") from None


def _skip_without_gpu() -> None:
    # Not before: whoever has no such test is not to wait for torch.
    import torch

    if not torch.cuda.is_available():
        pytest.skip(_NO_GPU)


def _enable(frugal_alloc: Any) -> None:
    if not frugal_alloc.is_enabled():
        try:
            frugal_alloc.enable()
        except frugal_alloc.FrugalAllocError as error:
            raise _failure(f"{MARKER}: frugal_alloc cannot be enabled: {error}") from None


def _failure(reason: str) -> Exception:
    """What ``pytest.fail`` raises: to be raised ``from None``, or pytest prints what it came of, too."""
    return pytest.fail.Exception(reason, pytrace=False)
