"""What the tests of integrations share: what a callback tells frugal_alloc is written down instead of carried out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import frugal_alloc
import pytest
from frugal_alloc import _native


class Report:
    """Stands for frugal_alloc.report()."""

    def __init__(self, told: list[str]) -> None:
        self._told = told
        self.verdicts = [{"material": True}]

    def print(self, file: object) -> None:
        self._told.append("report")

    def to_html(self, path: str) -> None:
        self._told.append(f"page {path}")

    def to_json(self, path: str) -> None:
        self._told.append(f"json {path}")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What frugal_alloc was told, in order: "enable", "+phase", "-phase", "epoch", "report"."""
    told: list[str] = []

    @contextlib.contextmanager
    def phase(name: str) -> Iterator[None]:
        told.append(f"+{name}")
        yield
        told.append(f"-{name}")

    monkeypatch.setattr(frugal_alloc, "enable", lambda: told.append("enable"))
    monkeypatch.setattr(frugal_alloc, "phase", phase)
    monkeypatch.setattr(frugal_alloc, "epoch_end", lambda: told.append("epoch"))
    monkeypatch.setattr(frugal_alloc, "report", lambda: Report(told))
    monkeypatch.setattr(_native, "loaded", lambda: object())
    return told
