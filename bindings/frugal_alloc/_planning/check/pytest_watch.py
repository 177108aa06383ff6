"""In pytest: where tests begin and end, for the recorder. Fixtures that several tests share are told by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from . import recorder
from .baseline import FIXTURE, TEST
from .ledger import Window
from .recorder import Recorder

Answer = TypeVar("Answer")


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
        if self._item is None:
            chosen = any("::" in argument for argument in session.config.args)
            names = [item.nodeid for item in session.items] + self._deselected
            self._have(lambda followed: followed.send({"tests": names, "chosen": chosen}))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        # A test may run pytest in its own process: what that does is the test's.
        is_outermost = self.is_on and self._item is None
        if is_outermost:
            self._item, self._has_passed, self._has_failed, self._window = item, True, False, None
            self._have(self.start)
        yield
        if is_outermost:
            self._have(self._end_test)
            self._item = self._window = None

    def _end_test(self, followed: Recorder) -> None:
        figures = followed.end(self._window, TEST) if self._window is not None else None
        followed.tell(self._item.nodeid, TEST, figures, passed=self._has_passed, failed=self._has_failed)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        yield
        if self._item is item and (window := self._window) is not None:
            self._have(lambda followed: followed.end_peak(window))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        outcome = yield
        report = getattr(outcome, "_result", None)
        if self._item is item and getattr(report, "outcome", "passed") != "passed":
            self._has_passed = False
            self._has_failed |= report.outcome == "failed"

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        outer, inner = self._window, None
        if outer is not None and fixturedef.scope != "function":
            inner = self._have(Recorder.open)
            self._window = inner or outer
        yield
        if outer is not None and inner is not None:
            self._window = outer
            if (figures := self._have(lambda followed: followed.end_fixture(inner, outer))) is not None:
                self._have(lambda followed: followed.tell(_name_of(fixturedef, request), FIXTURE, figures))

    def pytest_fixture_post_finalizer(self, fixturedef: Any) -> None:
        """pytest still has the fixture's value then, and with it what the test has left there."""
        if (window := self._window) is not None and fixturedef.scope != "function":
            self._have(lambda followed: followed.shared_end(window))

    def _have(self, carry_out: Callable[[Recorder], Answer]) -> Answer | None:
        """Has the recorder do something, if this is followed; what goes wrong is ours, and ends the watch rather than
        the tests."""
        followed = recorder.recorder()
        if not self.is_on or followed is None:
            return None
        try:
            return carry_out(followed)
        except Exception as error:
            self.is_on = False
            recorder.send_failure(error)
            return None


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
