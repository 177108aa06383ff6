"""What a notebook shows of a report that is the last value of a cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from browser import Browser
from drawn_pages import Seen
from frugal_alloc._report import document, files, schema
from frugal_alloc._report.report import Report


@pytest.fixture
def report(monkeypatch: Any) -> Any:
    """Makes the report of a document."""

    def make(content: dict[str, Any]) -> Report:
        monkeypatch.setattr(document, "build", lambda: schema.conform(content))
        return Report()

    return make


@pytest.mark.parametrize("sample", [samples.healthy, samples.leaking, samples.hostile])
def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing_else(report: Any, sample: Any) -> None:
    made = report(sample())
    shown = Seen(made._repr_html_())
    attributes = dict(shown.values)
    assert shown.structure == [("iframe", tuple(attributes)), ("/iframe",)]
    base = '<base href="about:srcdoc">'
    assert attributes["srcdoc"].count(base) == 1
    assert attributes["srcdoc"].replace(base, "") == made.to_html()
    assert attributes["sandbox"] == "allow-scripts"


def test_a_report_that_is_written_gives_a_notebook_its_path(report: Any, tmp_path: Path) -> None:
    made, path = report(samples.healthy()), tmp_path / "report"
    assert made.to_html(str(path)) == str(path)
    assert path.read_text(encoding="utf-8") == made.to_html()
    assert made.to_json(str(path)) == str(path)


def test_without_jinja2_a_notebook_shows_the_text(report: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(files, "to_html", lambda _: None)
    made = report(samples.hostile())
    shown = Seen(made._repr_html_())
    assert shown.structure == [("pre", ()), ("/pre",)]
    assert shown.text == str(made)


def test_a_terminal_of_ipython_shows_the_text(report: Any) -> None:
    class Printer:
        shown = ""

        def text(self, text: str) -> None:
            self.shown += text

    made, printer = report(samples.leaking()), Printer()
    made._repr_pretty_(printer, False)
    assert printer.shown == str(made)
    assert "train.py:42" in printer.shown


def test_a_browser_shows_the_frame_without_complaints(report: Any, chromium: Browser, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><title>Notebook</title>{report(samples.leaking())._repr_html_()}")
    chromium.show(notebook)
    assert chromium.value("document.querySelector('iframe').offsetHeight") == 640
    assert chromium.complaints == []
