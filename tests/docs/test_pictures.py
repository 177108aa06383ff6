"""The pictures of the documents are what their script draws."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import pictures  # noqa: E402


def test_picture_is_what_the_script_draws() -> None:
    assert pictures.FILE.read_text(encoding="utf-8") == pictures.picture()


def test_request_of_the_picture_fits_into_no_run_of_free_pieces_and_into_all_of_them() -> None:
    longest = max(map(len, pictures.MEMORY.translate({ord(tensor): " " for tensor in "abcdef"}).split()))
    assert longest < pictures.REQUEST <= pictures.MEMORY.count(".")


def test_picture_is_said_in_words_too() -> None:
    assert "free" in ElementTree.fromstring(pictures.picture()).attrib["aria-label"]
