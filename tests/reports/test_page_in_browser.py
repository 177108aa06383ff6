"""Pages in a real browser: they sort, zoom, answer to keys, have colours of their own and can be read in the dark."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Browser


def test_the_table_sorts_by_the_heading_that_is_pressed(chromium: Browser, drawn: Callable[[str], Path]) -> None:
    chromium.show(drawn("leaking"))
    cells = "[...document.querySelectorAll('.sites tbody tr')].map(row => Number(row.children[{}].dataset.value))"
    press = "document.querySelectorAll('.sites thead button')[{}].click()"
    assert chromium.value(cells.format(1)) == sorted(chromium.value(cells.format(1)), reverse=True)
    for column in (2, 3):
        chromium.value(press.format(column))
        assert chromium.value(cells.format(column)) == sorted(chromium.value(cells.format(column)), reverse=True)
        chromium.value(press.format(column))
        assert chromium.value(cells.format(column)) == sorted(chromium.value(cells.format(column)))
    chromium.value(press.format(0))
    lines = chromium.value("[...document.querySelectorAll('.sites tbody th span')].map(one => one.textContent)")
    assert lines == sorted(lines, key=lambda line: (line.split(":")[0], int(line.split(":")[1])))
    sorted_by = "[...document.querySelectorAll('.sites th')].map(one => one.getAttribute('aria-sort')).filter(Boolean)"
    assert chromium.value(sorted_by) == ["ascending"]


def test_selecting_a_box_enlarges_it_and_escape_goes_back(chromium: Browser, drawn: Callable[[str], Path]) -> None:
    chromium.show(drawn("leaking"))
    width = "document.querySelectorAll('.flame')[0].children[{}].getBoundingClientRect().width"
    whole = chromium.value(width.format(0))
    box = chromium.value(
        "[...document.querySelectorAll('.flame')[0].children].findIndex(one => one.title.includes('train.py:42'))"
    )
    assert chromium.value(width.format(box)) < 0.9 * whole
    chromium.value(f"document.querySelectorAll('.flame')[0].children[{box}].click()")
    assert chromium.value(width.format(box)) == pytest.approx(whole, rel=0.01)
    chromium.value(f"document.querySelectorAll('.flame')[0].children[{box}].focus()")
    chromium.press("Escape")
    assert chromium.value(width.format(box)) < 0.9 * whole


def test_the_arrow_keys_go_through_boxes_and_points(chromium: Browser, drawn: Callable[[str], Path]) -> None:
    chromium.show(drawn("leaking"))
    chromium.value("document.querySelector('.flame button').focus()")
    chromium.press("ArrowDown")
    assert chromium.value("document.activeElement.textContent").startswith("main ")
    chromium.value("document.querySelector('.plot').focus()")
    chromium.press("ArrowRight")
    first = chromium.value("document.querySelector('.reading').textContent")
    chromium.press("ArrowRight")
    assert first.startswith("step ")
    assert " allocated, at most " in first
    assert chromium.value("document.querySelector('.reading').textContent") != first


def test_the_tab_key_comes_to_the_box_that_was_enlarged(chromium: Browser, drawn: Callable[[str], Path]) -> None:
    chromium.show(drawn("leaking"))
    chromium.value("document.querySelector('.flame').children[0].focus()")
    chromium.press("ArrowDown")
    chromium.value("document.querySelector('.flame').lastElementChild.click()")
    reached = "[...document.querySelectorAll('.flame')[0].children].filter(one => one.tabIndex === 0)"
    assert chromium.value(f"{reached}.length") == 1
    assert chromium.value(f"{reached}[0] === document.querySelector('.flame').lastElementChild")


def test_a_screen_reader_hears_the_point_that_the_arrow_keys_come_to(
    chromium: Browser, drawn: Callable[[str], Path]
) -> None:
    chromium.show(drawn("leaking"))
    chromium.value("document.querySelector('.plot').focus()")
    heard = "document.querySelector('.plot').getAttribute('aria-{}')"
    assert chromium.value("document.querySelector('.plot').getAttribute('role')") == "slider"
    for key, place in (("End", chromium.value(heard.format("valuemax"))), ("Home", "1"), ("ArrowRight", "2")):
        chromium.press(key)
        assert chromium.value(heard.format("valuenow")) == place
        said = chromium.value("document.querySelector('.reading').textContent")
        assert re.match(r"step .*: [\d.]+ \w+ allocated, at most [\d.]+ \w+, [\d.]+ \w+ reserved$", said)
        assert chromium.value(heard.format("valuetext")) == said


def test_now_and_peak_change_places_without_scripts(chromium: Browser, drawn: Callable[[str], Path]) -> None:
    chromium.show(drawn("leaking"), scripts=False)
    shown = "[...document.querySelectorAll('.flame')].map(one => getComputedStyle(one).display)"
    assert chromium.value(shown) == ["block", "none"]
    chromium.value("document.querySelectorAll('.choice')[1].checked = true")
    assert chromium.value(shown) == ["none", "block"]
    assert chromium.value("document.querySelectorAll('.sites tbody tr').length") > 3
    assert chromium.value("getComputedStyle(document.querySelector('.scripted')).display") == "none"


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_by_day_and_in_the_dark(chromium: Browser, drawn: Callable[[str], Path], dark: bool) -> None:
    chromium.show(drawn("small findings"), dark=dark)
    ground = chromium.value("getComputedStyle(document.body).backgroundColor")
    chromium.value("document.querySelector('.flame').children[3].click()")
    lightness = sum(int(part) for part in ground[4:-1].split(","))
    assert (lightness < 200) == dark
    for selector in (
        "body",
        "h1",
        "section",
        "p.advice",
        ".quiet",
        ".flame .own",
        ".flame .above",
        ".code pre",
        ".badge",
        "td",
        "#small ~ ul code",
    ):
        assert chromium.value(CONTRAST.format(selector)) >= 4.5, selector


@pytest.mark.parametrize("dark", [False, True])
def test_each_component_and_phase_has_a_colour_of_its_own(
    chromium: Browser, drawn: Callable[[str], Path], dark: bool
) -> None:
    chromium.show(drawn("fit: fitting"), dark=dark)
    fills = chromium.value(
        "[...document.querySelectorAll('.plot path.layer')].map(path => getComputedStyle(path).fill)"
    )
    assert len(fills) > 5
    assert len(set(fills)) == len(fills)
    swatches = "[...document.querySelectorAll('.phases i')].map(one => getComputedStyle(one).backgroundColor)"
    assert len(set(chromium.value(swatches))) == 3
    assert "none" not in fills and "rgb(0, 0, 0)" not in fills


def test_the_limit_is_drawn_at_the_gpus_memory(chromium: Browser, drawn: Callable[[str], Path]) -> None:
    chromium.show(drawn("fit: refused"))
    line, top, bottom = (
        chromium.value(f"document.querySelector('.plot {selector}').getBoundingClientRect().{edge}")
        for selector, edge in (("path.limit", "top"), ("svg", "top"), ("svg", "bottom"))
    )
    # 24 of the 40 GiB of the picture's height.
    assert (bottom - line) / (bottom - top) == pytest.approx(24 / 40, abs=0.01)


# WCAG's contrast of an element's text to the nearest ground that is not transparent. Through an element that is so in
# part, the ground behind it shines.
CONTRAST = """(() => {{
  const parts = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (parts) => parts.map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (one) => {{
    while (getComputedStyle(one).backgroundColor === "rgba(0, 0, 0, 0)") one = one.parentElement;
    return parts(getComputedStyle(one).backgroundColor);
  }};
  const one = document.querySelector("{}"), opacity = Number(getComputedStyle(one).opacity);
  const behind = ground(one.closest("section") || document.body);
  const seen = (parts) => light(parts.map((v, n) => v * opacity + behind[n] * (1 - opacity)));
  const [low, high] = [seen(parts(getComputedStyle(one).color)), seen(ground(one))].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}})()"""
