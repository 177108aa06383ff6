"""All pages: complete in themselves, safe whatever they show, and usable on a phone and by keyboard.

Names of files and functions, lines of code, phases, notes and messages come from programs and file systems: they can
hold anything. What a parser sees of a page is compared with what it sees when each text is a plain word.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import report_samples as samples
from browser import Browser
from drawn_pages import NAMES, REPORTS, Seen, draw
from frugal_alloc._report import files
from frugal_alloc._report.schema import conform

sys.path.append(str(Path(__file__).resolve().parents[1] / "bad_input"))
import hostile

ROUNDS = 8 * hostile.ROUNDS
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PIECES = hostile.MARKUP + hostile.LETTERS


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_well_formed_small_and_complete_in_itself(name: str) -> None:
    rendered = draw(name)
    assert len(rendered.encode()) < 3_000_000
    seen = Seen(rendered)
    ids = seen.of("id")
    assert len(ids) == len(set(ids))
    references = [reference for reference in seen.of("href", "src", "action", "srcset") if reference != "data:,"]
    assert references or name == "nothing"
    assert {reference.removeprefix("#") for reference in references} <= set(ids)
    # Sorting and zooming; a verdict has neither.
    assert sum(tag[0] == "script" for tag in seen.structure) == (name in REPORTS)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("huge", "nothing")])
def test_no_text_becomes_an_element_an_attribute_or_script(name: str) -> None:
    numbers: dict[str, int] = {}

    def plain(text: str) -> str:
        return f"word{numbers.setdefault(text, len(numbers))}z"

    expected = Seen(draw(name, plain))
    for number in range(ROUNDS):
        case = f"{name}, case {number}"
        rendered = draw(name, hostile_texts(plain, random.Random(f"{name} {hostile.SEED} {number}")))
        seen = Seen(rendered)
        assert seen.structure == expected.structure, case
        assert seen.scripts == expected.scripts, case
        for attribute, value in seen.values:
            assert not attribute.startswith("on"), case
            if attribute in ("href", "src", "action", "formaction", "srcset"):
                assert value.startswith("#") or value == "data:,", f"{case}: {value}"
            if attribute == "style":
                assert re.fullmatch(r"[-\w\s:;.,%()#]*", value), f"{case}: {value}"
        assert not UNPRINTABLE.search(rendered), case
        rendered.encode()


def hostile_texts(plain: Callable[[str], str], chance: random.Random) -> Callable[[str], str]:
    """A hostile text for each word, the same for the same one."""
    of_word: dict[str, str] = {}

    def changed(text: str) -> str:
        if text not in of_word:
            pieces = [chance.choice(PIECES) for _ in range(chance.randrange(1, 4))]
            # The word keeps texts apart, and in the order in which they were.
            of_word[text] = chance.choice(["", "x"]) + plain(text) + "".join(pieces)
        return of_word[text]

    return changed


def test_the_document_is_json_that_no_script_element_ends_in() -> None:
    """Reports are pasted into pages by others: the JSON form is ASCII and holds no lone surrogate as it is."""
    text = files.to_json(conform(samples.hostile()))
    assert text.isascii()
    assert json.loads(text)["schema"] == "frugal_alloc.report"


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_any_screen_and_has_no_complaints(
    chromium: Browser, drawn: Callable[[str], Path], name: str
) -> None:
    for width in (360, 1200):
        chromium.show(drawn(name), width=width, height=740)
        assert chromium.value("document.documentElement.scrollWidth") <= width
        assert chromium.complaints == []
        assert chromium.value("document.title") != "owned"


@pytest.mark.parametrize(
    ("name", "height", "selectors"),
    [
        ("leaking", 740, ("h1", ".verdict h3", ".verdict pre", "p.advice")),
        ("fit: refused", 800, ("h1", ".error", ".tiles", "ol.advice li")),
    ],
)
def test_the_answer_and_what_to_change_are_on_the_first_screen_of_a_phone(
    chromium: Browser, drawn: Callable[[str], Path], name: str, height: int, selectors: tuple[str, ...]
) -> None:
    chromium.show(drawn(name), width=360, height=height)
    for selector in selectors:
        bottom = chromium.value(f"document.querySelector('{selector}').getBoundingClientRect().bottom")
        assert bottom <= height, selector


REPORT_STOPS = ("Notes", "Now", "arrow keys", "Lines that hold memory")


@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("leaking", REPORT_STOPS),
        ("out of memory", REPORT_STOPS),
        ("ranks", REPORT_STOPS),
        *((f"fit: {name}", ("Lines that hold memory at the peak",)) for name in ("refused", "ranks", "allocators")),
    ],
)
def test_who_has_only_a_keyboard_and_a_phone_comes_to_all_and_sees_where(
    chromium: Browser, drawn: Callable[[str], Path], name: str, stops: tuple[str, ...]
) -> None:
    chromium.show(drawn(name), width=390, height=740)
    walk = chromium.walk_by_keyboard()
    assert [stop["place"] for stop in walk] == sorted(stop["place"] for stop in walk)
    assert [stop["text"] for stop in walk if not (stop["text"] and stop["outlined"] and stop["inSight"])] == []
    for wanted in stops:
        assert any(wanted in stop["text"] for stop in walk), wanted


@pytest.mark.parametrize("name", ["leaking", "fit: refused"])
def test_what_is_touched_on_a_phone_is_as_high_as_a_finger_needs(
    chromium: Browser, drawn: Callable[[str], Path], name: str
) -> None:
    chromium.show(drawn(name), width=390, height=740)
    touched = "[...document.querySelectorAll('nav a, th button, summary, .choice + label, .flame button')]"
    heights = f"{touched}.filter(one => one.checkVisibility()).map(one => one.getBoundingClientRect().height)"
    # WCAG 2.2, 2.5.8.
    assert min(chromium.value(heights)) >= 24
