"""docs/cpp.md is followed word by word, as tutorials are: its program is written, built, run and mended."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tutorials"))
import tutorial  # noqa: E402


@pytest.mark.skipif(os.environ.get("FRUGAL_TEST_ALL") != "1", reason="compiles for half a minute: tools/test --all")
def test_the_page_on_cpp_is_true_word_by_word(tmp_path: Path) -> None:
    if not (shutil.which("cmake") and shutil.which("c++")):
        pytest.skip("CMake or a C++ compiler is not installed")
    page = (ROOT / "docs" / "cpp.md").read_text(encoding="utf-8")
    for name in ("reader", "staged"):
        (tmp_path / name).mkdir()
    true = tutorial.with_outputs(page, tutorial.run(page, tmp_path / "reader", tmp_path / "staged"))
    assert true == page, tutorial.difference(page, true)
