"""What the tests of reports share: one headless Chromium for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, find


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = find()
    if program is None:
        pytest.skip("no Chromium or Chrome on this machine (apt-get install chromium)")
    with Browser(program) as browser:
        yield browser


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a document, or anything else that JSON can hold, to a file."""

    def write(document: Any, name: str = "report.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return path

    return write
