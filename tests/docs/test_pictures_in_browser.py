"""The pictures in a real browser: on a phone and on a desk, all text is large enough, in sight and apart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="tools/setup installs what draws the pictures")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "reports")]
import browser  # noqa: E402
from browser import Browser  # noqa: E402
from pictures import cases  # noqa: E402

chromium = browser.chromium
# Of a letter's height on the screen, in pixels.
LEAST_TEXT = 10.5
PAGE = (
    '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><body style="margin: 0">'
)
TEXTS = """[...document.querySelectorAll("text")].filter((one) => one.getBoundingClientRect().width > 0).map((one) => {
  const box = one.getBoundingClientRect(), scale = one.getScreenCTM().a;
  return { text: one.textContent, size: parseFloat(getComputedStyle(one).fontSize) * scale,
    left: box.left, right: box.right, top: box.top, bottom: box.bottom };
})"""


@pytest.mark.parametrize("picture", cases.PICTURES)
@pytest.mark.parametrize("width", [390, 860])
def test_text_is_large_enough_and_in_sight_and_apart(
    chromium: Browser, tmp_path: Path, picture: str, width: int
) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE + cases.file_of(picture).read_text(encoding="utf-8"), encoding="utf-8")
    chromium.show(page, width=width, height=1000)
    texts = chromium.value(TEXTS)
    assert len(texts) > 5
    assert [text["text"] for text in texts if text["size"] < LEAST_TEXT] == []
    assert [text["text"] for text in texts if text["left"] < 0 or text["right"] > width] == []
    pairs = [(a["text"], b["text"]) for n, a in enumerate(texts) for b in texts[n + 1 :] if overlap(a, b)]
    assert pairs == []


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    """By more than the space above and below the letters of a row."""
    slack = 0.25 * (one["bottom"] - one["top"])
    across = one["left"] < other["right"] and other["left"] < one["right"]
    return across and one["top"] + slack < other["bottom"] and other["top"] + slack < one["bottom"]
