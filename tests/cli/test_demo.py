"""``frugal-alloc demo``: what it shows is what the programs did."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "frugal_alloc", "demo"]


@pytest.fixture(scope="module")
def shown() -> str:
    done = subprocess.run(DEMO, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_batch_that_the_error_names_can_be_trained(shown: str) -> None:
    assert "PyTorch says:\n  CUDA out of memory." in shown and "frugal_alloc says:\n  CUDA out of memory." in shown
    assert re.search(r"With a batch of \d+, as it says:\n  trained; at most 3\.\d+ GiB of tensors", shown)


def test_the_leak_is_found_with_its_line_and_its_holder(shown: str) -> None:
    assert re.search(r"1\. leak  \S+leaking\.py:19", shown) and "held by list 'losses'" in " ".join(shown.split())


def test_the_memory_in_pieces_is_too_small_for_pytorch_alone(shown: str) -> None:
    assert re.search(r"\n  PyTorch  +out of memory in step \d+ ", shown)
    assert re.search(r"\n  PyTorch, expandable segments  trained ", shown)
    assert re.search(r"\n  frugal_alloc  +trained ", shown)


def test_the_readme_shows_its_error(shown: str) -> None:
    """Where `...` stands for what is left out."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```text\n(CUDA out of memory.*?)^```", readme, re.MULTILINE | re.DOTALL)
    parts = (re.escape(part.rstrip("\n")) for part in block[1].split("...\n"))
    said = textwrap.dedent(shown.partition("frugal_alloc says:\n")[2].partition("\n\n")[0])
    # PyTorch's first line ends with a space.
    said = re.sub(" +$", "", said, flags=re.MULTILINE)
    assert re.match(".*\n".join(parts), said, re.DOTALL), said


def test_an_argument_is_refused() -> None:
    done = subprocess.run([*DEMO, "--fast"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
