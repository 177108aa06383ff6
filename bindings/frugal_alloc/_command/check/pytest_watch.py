"""In pytest: where tests begin and end, for the recorder. Fixtures that several tests share are told by themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from . import process_names, recorder
from .figures import Figures

__all__ = [
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_deselected",
    "pytest_fixture_post_finalizer",
    "pytest_fixture_setup",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
]


class _Watch:
    """The tests of this process."""

    def __init__(self) -> None:
        # A pytest that a test has started is told as one process.
        self.is_on = not process_names.starting_test()
        self.window: recorder.Window | None = None
        self.item: Any = None
        self.has_passed, self.has_failed = True, False
        self.deselected: list[str] = []

    @contextlib.contextmanager
    def carefully(self) -> Iterator[None]:
        """What goes wrong in it is ours, and ends the watch rather than the tests."""
        try:
            yield
        except Exception as error:
            self.is_on = False
            recorder.send_failure(error)

    def begin(self, item: Any) -> None:
        self.item, self.has_passed, self.has_failed, self.window = item, True, False, None
        if (followed := recorder.recorder()) is not None:
            self.start(followed)

    def start(self, followed: recorder.Recorder) -> None:
        if self.item is not None and self.window is None:
            self.window = followed.begin()

    def end(self) -> None:
        window, name = self.window, self.item.nodeid
        self.item = self.window = None
        figures = window.end(keeps=False) if window is not None else None
        self.tell(name, "test", figures, self.has_passed)

    def tell(self, name: str, kind: str, figures: Figures | None, has_passed: bool) -> None:
        record = {"name": name, "kind": kind, "passed": has_passed}
        if kind == "test":
            record["failed"] = self.has_failed
        if figures is not None:
            record["figures"] = figures.to_values()
        if (followed := recorder.recorder()) is not None:
            followed.send(record)


_watch = _Watch()


def pytest_configure(config: pytest.Config) -> None:
    recorder.is_of_tests = _watch.is_on
    recorder.on_start = _watch.start


def pytest_deselected(items: list[pytest.Item]) -> None:
    _watch.deselected += [item.nodeid for item in items]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Which tests there are, so that a baseline loses those that are gone, and no others."""
    if _watch.is_on and _watch.item is None and (followed := recorder.recorder()) is not None:
        chosen = any("::" in argument for argument in session.config.args)
        names = [item.nodeid for item in session.items] + _watch.deselected
        with _watch.carefully():
            followed.send({"tests": names, "chosen": chosen})


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    # A test may run pytest in its own process: what that does is the test's.
    is_outermost = _watch.is_on and _watch.item is None
    if is_outermost:
        with _watch.carefully():
            _watch.begin(item)
    yield
    if is_outermost and _watch.is_on:
        with _watch.carefully():
            _watch.end()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    if _watch.item is item and _watch.window is not None:
        with _watch.carefully():
            _watch.window.end_peak()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = getattr(outcome, "_result", None)
    if _watch.item is item and getattr(report, "outcome", "passed") != "passed":
        _watch.has_passed = False
        _watch.has_failed |= report.outcome == "failed"


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    outer, followed = _watch.window, recorder.recorder()
    inner = None
    if _watch.is_on and outer is not None and followed is not None and fixturedef.scope != "function":
        with _watch.carefully():
            inner = _watch.window = followed.open()
    yield
    if inner is not None and _watch.is_on:
        with _watch.carefully():
            _watch.window = outer
            figures = outer.end_inner(inner)
            if figures is not None:
                _watch.tell(_name_of(fixturedef, request), "fixture", figures, True)


def pytest_fixture_post_finalizer(fixturedef: Any) -> None:
    """pytest still has the fixture's value then, and with it what the test has left there."""
    if _watch.is_on and _watch.window is not None and fixturedef.scope != "function":
        with _watch.carefully():
            _watch.window.shared_end()


def _name_of(fixturedef: Any, request: Any) -> str:
    place = getattr(request.node, "nodeid", "") or "session"
    number = f"[{request.param_index}]" if hasattr(request, "param") else ""
    return f"{place}: fixture {fixturedef.argname}{number}"
