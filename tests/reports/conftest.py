"""What the tests of reports share: a headless Chromium, and reports in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import browser
import pytest

chromium = browser.chromium


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a document, or anything else that JSON can hold, to a file."""

    def write(document: Any, name: str = "report.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return path

    return write
