"""What all callbacks do: name phases, end epochs, and report once training is over."""

from __future__ import annotations

import os
import sys

import frugal_alloc

from .. import _interruptions, _native


def missing(module: str, package: str) -> ImportError:
    """The error of a module whose library is not there."""
    return ImportError(f"frugal_alloc.integrations.{module} needs {package}: pip install {package}")


class Following:
    """Follows one training for a callback. Nothing in here raises into the training, but for the arguments."""

    def __init__(self, path: str | os.PathLike[str] | None, enable: bool) -> None:
        """
        Args:
            path: Where the report is written at the end: a page if it ends in .html, else JSON.
            enable: Whether frugal_alloc is to be enabled as training begins.
        """
        self._path = None if path is None else os.fspath(path)
        self._enable = enable
        self._phases: list[tuple[str, object]] = []

    def begin(self) -> None:
        if not self._enable:
            return
        try:
            frugal_alloc.enable()
        except frugal_alloc.FrugalAllocError as error:
            self._enable = False
            _tell(f"goes on without frugal_alloc: {error}")

    def enter(self, name: str) -> None:
        """The phase begins, within the ones that are open; a second time it does nothing."""
        if any(name == open_name for open_name, _ in self._phases):
            return
        phase = frugal_alloc.phase(name)
        phase.__enter__()
        self._phases.append((name, phase))

    def leave(self, name: str) -> None:
        """The phase ends, and with it those within that were left open; one that is not open does nothing."""
        if not any(name == open_name for open_name, _ in self._phases):
            return
        while self._phases:
            open_name, phase = self._phases.pop()
            phase.__exit__(None, None, None)  # type: ignore[attr-defined]
            if open_name == name:
                return

    def leave_all(self) -> None:
        while self._phases:
            self._phases.pop()[1].__exit__(None, None, None)  # type: ignore[attr-defined]

    def end_epoch(self) -> None:
        frugal_alloc.epoch_end()

    def finish(self, is_first_rank: bool = True) -> None:
        """Training is over: prints what leaks, if anything material does, and writes the report."""
        self.leave_all()
        if not is_first_rank or _native.loaded() is None:
            return
        try:
            report = frugal_alloc.report()
            if any(verdict["material"] for verdict in report.verdicts):
                report.print(sys.stderr)
            if self._path is not None:
                write = report.to_html if self._path.endswith((".html", ".htm")) else report.to_json
                write(self._path)
        except Exception as error:  # A report is not worth the training.
            _interruptions.pass_on(error)
            _tell(f"no report: {str(error).splitlines()[0] if str(error) else type(error).__name__}")


def _tell(message: str) -> None:
    print(f"frugal_alloc: {message}", file=sys.stderr)
