"""What the tests of reports share: a headless Chromium, pages, and reports in files."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import browser
import pytest
from drawn_pages import draw

chromium = browser.chromium


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a document, or anything else that JSON can hold, to a file."""

    def write(document: Any, name: str = "report.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return path

    return write


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a page by its name, one of drawn_pages.NAMES."""
    folder = tmp_path_factory.mktemp("pages")

    @functools.cache
    def draw_once(name: str) -> Path:
        file = folder / f"{name}.html"
        file.write_text(draw(name))
        return file

    return draw_once
