"""The site in a real browser: on a phone and on a desk, light and dark, by pointer and by keyboard alone."""

from __future__ import annotations

import contextlib
import math
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "site"))
from built_site import Site  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "reports"))
import browser  # noqa: E402
from browser import Browser  # noqa: E402

chromium = browser.chromium
PAGES = ["index.html", "fit.html", "reference/python.html", "reports/examples/index.html", "tutorials/index.html"]
PAGES += ["cases.html", "cpp.html", "install.html"]
MOST_QUESTIONS = 50_000
SCHEME = "document.body.dataset.mdColorScheme"
# Of a page's text: the least contrast that it has to its background, as WCAG reckons it.
CONTRASTS = """(() => {
  const parse = (colour) => {
    const paint = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const one of document.querySelectorAll("article *, .md-nav__link, .md-tabs__link, .md-copyright *")) {
    const words = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const box = one.getBoundingClientRect();
    if (!words || !box.width || one.closest("svg") || one.matches(".headerlink, button, button *")) continue;
    const [light, dark] = [luminance(parse(getComputedStyle(one).color)), luminance(behind(one))].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)} ${one.className} ${one.textContent.trim().slice(0, 40)}`);
  }
  return found;
})()"""


def documents(site: Site) -> list[str]:
    """Those that are read as text: not the example reports, nor what takes the place of a page that is not there."""
    return [name for name, page in site.pages.items() if page.description and name != "404.html"]


def settled(chromium: Browser, expression: str) -> None:
    """Asks the page until it holds: what the page does comes after what it is told."""
    for _ in range(MOST_QUESTIONS):
        # A page that is being left gives no answer.
        with contextlib.suppress(AssertionError):
            if chromium.value(f"Boolean({expression})"):
                return
    raise AssertionError(f"does not come to be: {expression}")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("page", PAGES)
def test_page_is_as_wide_as_the_screen_and_legible(
    site: Site, chromium: Browser, page: str, width: int, dark: bool
) -> None:
    chromium.show(site.folder / page, width=width, dark=dark)
    settled(chromium, "document.querySelector('.md-search__result, [data-md-component=search]') !== null")
    assert chromium.value(SCHEME) == ("slate" if dark else "default")
    assert chromium.value("document.documentElement.scrollWidth") <= width
    assert chromium.value(CONTRASTS) == []
    assert chromium.complaints == []


@pytest.mark.parametrize("page", ["cases.html", "tuning.html"])
def test_wide_table_scrolls_where_the_keyboard_comes_to_it_and_shows_that_there_is_more(
    site: Site, chromium: Browser, page: str
) -> None:
    chromium.show(site.folder / page, width=400)
    settled(chromium, "document.querySelector('.md-typeset__scrollwrap')")
    wide = "[...document.querySelectorAll('article *')].filter((one) => one.matches('.table, .table *') &&"
    wide += " one.scrollWidth > one.clientWidth && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX))"
    assert chromium.value(f"{wide}.length") > 0
    assert chromium.value(f"{wide}.filter((one) => one.tabIndex !== 0).length") == 0
    shades = f"{wide}.every((one) => getComputedStyle(one).backgroundAttachment.startsWith('local, local, scroll'))"
    assert chromium.value(shades)


@pytest.mark.parametrize("width, most_height", [(400, math.inf), (1280, 8_000)])
def test_code_is_as_wide_as_its_column_and_no_page_too_long_to_be_read(
    site: Site, chromium: Browser, width: int, most_height: float
) -> None:
    wide = "[...document.querySelectorAll('article pre > code')].filter((one) => one.scrollWidth > one.clientWidth)"
    found = []
    for page in documents(site):
        chromium.show(site.folder / page, width=width)
        found += [(page, text) for text in chromium.value(f"{wide}.map((one) => one.textContent.slice(0, 80))")]
        height = chromium.value("document.documentElement.scrollHeight")
        found += [(page, height)] if height > most_height else []
    assert found == []


@pytest.mark.parametrize("words", ["jupyter", "docker", "oom", "cuda out of memory", "fragmentation", "slurm"])
def test_search_finds_what_a_newcomer_looks_for(site: Site, chromium: Browser, words: str) -> None:
    chromium.show(site.folder / "index.html", width=1280)
    settled(chromium, "document.querySelector('[data-md-component=search-query]')")
    chromium.value(f"""(() => {{
      const query = document.querySelector("[data-md-component=search-query]");
      query.focus();
      query.value = "{words}";
      query.dispatchEvent(new Event("keyup", {{ bubbles: true }}));
    }})()""")
    settled(chromium, "document.querySelector('.md-search-result__item a')")


@pytest.mark.parametrize("page", ["index.html", "fit.html"])
def test_all_can_be_read_without_scripts(site: Site, chromium: Browser, page: str) -> None:
    chromium.show(site.folder / page, width=400, scripts=False)
    chromium._call("Emulation.setScriptExecutionDisabled", value=False)
    assert chromium.value("document.querySelector('article').innerText.length") > 1000
    assert chromium.value("document.querySelector('article').getBoundingClientRect().height") > 1000


def test_tab_key_skips_to_the_text_and_shows_where_it_is(site: Site, chromium: Browser) -> None:
    chromium.show(site.folder / "fit.html", width=1280)
    chromium.press("Tab")
    assert chromium.value("document.activeElement.matches('.md-skip')")
    seen = []
    for _ in range(60):
        chromium.press("Tab")
        here = chromium.value("""(() => {
          const one = document.activeElement, label = one.matches(".md-option") ? one.nextElementSibling : one;
          const style = getComputedStyle(label);
          return [one.tagName, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 ||
            one.matches(".md-search__input"), Boolean(one.closest("article")), one.textContent.trim().slice(0, 30)];
        })()""")
        if here[0] == "BODY":  # after the last
            break
        seen.append(here)
    assert [one for one in seen if not one[1]] == []
    assert any(one[2] for one in seen)
