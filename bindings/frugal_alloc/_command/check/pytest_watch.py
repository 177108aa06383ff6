"""In pytest: where tests begin and end, for the recorder. Fixtures that several tests share are told by themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from . import recorder
from .baseline import FIXTURE, TEST
from .ledger import Window
from .recorder import Recorder


class _Watch:
    """The tests of this process."""

    def __init__(self) -> None:
        # A pytest that a test has started is told as one process.
        self.is_on = not recorder.starting_test()
        self._window: Window | None = None
        self._item: Any = None
        self._has_passed, self._has_failed = True, False
        self._deselected: list[str] = []

    def start(self, followed: Recorder) -> None:
        if self._item is not None and self._window is None:
            self._window = followed.begin()

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._deselected += [item.nodeid for item in items]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Which tests there are, so that a baseline loses those that are gone, and no others."""
        followed = recorder.recorder()
        if self.is_on and self._item is None and followed is not None:
            chosen = any("::" in argument for argument in session.config.args)
            names = [item.nodeid for item in session.items] + self._deselected
            with self._carefully():
                followed.send({"tests": names, "chosen": chosen})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        # A test may run pytest in its own process: what that does is the test's.
        is_outermost = self.is_on and self._item is None
        if is_outermost:
            with self._carefully():
                self._item, self._has_passed, self._has_failed, self._window = item, True, False, None
                if (followed := recorder.recorder()) is not None:
                    self.start(followed)
        yield
        if is_outermost and self.is_on:
            with self._carefully():
                self._end_test()

    def _end_test(self) -> None:
        window, name = self._window, self._item.nodeid
        self._item = self._window = None
        if (followed := recorder.recorder()) is not None:
            figures = followed.end(window, TEST) if window is not None else None
            followed.tell(name, TEST, figures, passed=self._has_passed, failed=self._has_failed)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        yield
        followed = recorder.recorder()
        if self._item is item and self._window is not None and followed is not None:
            with self._carefully():
                followed.end_peak(self._window)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        outcome = yield
        report = getattr(outcome, "_result", None)
        if self._item is item and getattr(report, "outcome", "passed") != "passed":
            self._has_passed = False
            self._has_failed |= report.outcome == "failed"

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        outer, followed, inner = self._window, recorder.recorder(), None
        if self.is_on and outer is not None and followed is not None and fixturedef.scope != "function":
            with self._carefully():
                inner = self._window = followed.open()
        yield
        if inner is not None and self.is_on:
            with self._carefully():
                self._window = outer
                figures = followed.end_fixture(inner, outer)
                if figures is not None:
                    followed.tell(_name_of(fixturedef, request), FIXTURE, figures)

    def pytest_fixture_post_finalizer(self, fixturedef: Any) -> None:
        """pytest still has the fixture's value then, and with it what the test has left there."""
        followed = recorder.recorder()
        if self.is_on and self._window is not None and followed is not None and fixturedef.scope != "function":
            with self._carefully():
                followed.shared_end(self._window)

    @contextlib.contextmanager
    def _carefully(self) -> Iterator[None]:
        """What goes wrong in it is ours, and ends the watch rather than the tests."""
        try:
            yield
        except Exception as error:
            self.is_on = False
            recorder.send_failure(error)


# Of a pytest that a test runs in this process, too.
_watch = _Watch()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_watch)
    recorder.is_of_tests = _watch.is_on
    recorder.on_start = _watch.start


def _name_of(fixturedef: Any, request: Any) -> str:
    place = getattr(request.node, "nodeid", "") or "session"
    number = f"[{request.param_index}]" if hasattr(request, "param") else ""
    return f"{place}: fixture {fixturedef.argname}{number}"
