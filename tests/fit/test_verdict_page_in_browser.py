"""The page of a verdict in a real browser is drawn light and dark."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import verdict_samples as samples
from frugal_alloc._command.fit import page

sys.path.append(str(Path(__file__).resolve().parents[1] / "reports"))
import browser
from browser import Browser

chromium = browser.chromium


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("pages")

    def draw(name: str) -> Path:
        file = folder / f"{name}.html"
        file.write_text(page.render(samples.ALL[name]))
        return file

    return draw


@pytest.mark.parametrize("dark", [False, True])
def test_each_component_and_phase_has_a_colour_of_its_own(
    chromium: Browser, drawn: Callable[[str], Path], dark: bool
) -> None:
    chromium.show(drawn("fitting"), dark=dark)
    fills = chromium.value(
        "[...document.querySelectorAll('.plot path.layer')].map(path => getComputedStyle(path).fill)"
    )
    assert len(fills) > 5
    assert len(set(fills)) == len(fills)
    swatches = "[...document.querySelectorAll('.phases i')].map(one => getComputedStyle(one).backgroundColor)"
    assert len(set(chromium.value(swatches))) == 3
    assert "none" not in fills and "rgb(0, 0, 0)" not in fills


def test_the_limit_is_drawn_at_the_gpus_memory(chromium: Browser, drawn: Callable[[str], Path]) -> None:
    chromium.show(drawn("refused"))
    line, top, bottom = (
        chromium.value(f"document.querySelector('.plot {selector}').getBoundingClientRect().{edge}")
        for selector, edge in (("path.limit", "top"), ("svg", "top"), ("svg", "bottom"))
    )
    # 24 of the 40 GiB of the picture's height.
    assert (bottom - line) / (bottom - top) == pytest.approx(24 / 40, abs=0.01)
