"""The page of a folder of wheels: pip installs from it, and notices a wheel that is another."""

from __future__ import annotations

import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
write_index = runpy.run_path(str(ROOT / "tools" / "wheel"))["write_index"]
WHEEL = "frugal_alloc-9.8.7-py3-none-any.whl"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Of a folder with a wheel that has nothing in it, and with what is no distribution."""
    folder = tmp_path / "wheels of ours"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        info = "frugal_alloc-9.8.7.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: frugal_alloc\nVersion: 9.8.7\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return write_index(folder)


def downloaded(page: Path, into: Path) -> subprocess.CompletedProcess[str]:
    pip = [sys.executable, "-m", "pip", "--isolated", "download", "--no-index", "--no-cache-dir"]
    command = [*pip, "--dest", into, "--find-links", page.as_uri(), "frugal_alloc"]
    return subprocess.run(command, capture_output=True, text=True)


def test_pip_finds_the_wheel_by_the_page(page: Path, tmp_path: Path) -> None:
    done = downloaded(page, tmp_path / "here")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "here").iterdir()] == [WHEEL]
    assert "notes" not in page.read_text(encoding="utf-8")


def test_pip_refuses_a_wheel_that_was_changed_since(page: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(page.parent / WHEEL, "a") as wheel:
        wheel.writestr("frugal_alloc/more.py", "")
    done = downloaded(page, tmp_path / "here")
    assert done.returncode != 0 and "DO NOT MATCH" in done.stderr
