"""Whatever text a report holds, its page has the same elements, attributes and script as with harmless text.

Names of files and functions, lines of code, phases, notes and messages come from programs and file systems: they can
hold anything. What a parser sees of the page is compared with what it sees when each text is a plain word.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
import report_samples as samples
from frugal_alloc._report import page
from frugal_alloc._report.schema import conform

ROUNDS = 30 * int(os.environ.get("FRUGAL_FUZZ_ROUNDS", "1"))
SEED = os.environ.get("FRUGAL_TEST_SEED", "1")
# Keys whose texts are words of ours, which decide over what is drawn; the reader refuses others.
FIXED = {"schema", "verdict", "kind", "found_by", "pattern", "started", "written"}
PIECES = (
    "<script>alert(1)</script>",
    "</script><script>x()",
    "</style>",
    "</title>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    '"',
    "'",
    "`",
    "&",
    "&lt;",
    "&#x3c;img src=x onerror=y&#x3e;",
    '" onmouseover="x()',
    "' autofocus onfocus='x()",
    "javascript:x()",
    "data:text/html,<b>",
    "<img src=x onerror=x()>",
    "<svg/onload=x()>",
    "<a href=//evil>",
    "</code></p>",
    "{{ 7 * 7 }}",
    "{% include 'page.js' %}",
    "{# #}",
    "${7*7}",
    "\\u003cscript\\u003e",
    "\\",
    "//",
    "/*",
    "*/",
    "%3Cscript%3E",
    "\x00",
    "\x01",
    "\x08",
    "\x0b",
    "\x0c",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\x9b",
    "\r",
    "\n",
    "\t",
    "\u2028",
    "\u2029",
    "\u202e",
    "\u2066",
    "\u200f",
    "\ufeff",
    "\ufffe",
    "\ud800",
    "\udfff",
    "\udc80",
    "\U0010ffff",
    "e\u0301\u0302" * 5,
    "\ufdfa",
    "\u0627\u0644\u0639",
    "\u65e5\u672c",
)


class Seen(HTMLParser):
    """What a parser makes of a page, but for its text and the values that text may go into."""

    def __init__(self, rendered: str) -> None:
        super().__init__(convert_charrefs=True)
        self.structure: list[tuple] = []
        self.values: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self._within = ""
        self.feed(rendered)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.structure.append((tag, tuple(name for name, _ in attributes)))
        self.values += [(name, value or "") for name, value in attributes]
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        self.structure.append(("/" + tag,))
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within in ("script", "style"):
            self.scripts.append(data)

    def handle_comment(self, data: str) -> None:
        self.structure.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.structure.append(("declaration", decl))

    def handle_pi(self, data: str) -> None:
        self.structure.append(("instruction", data))

    def unknown_decl(self, data: str) -> None:
        self.structure.append(("unknown", data))


def with_texts(value: Any, change: Callable[[str], str], key: str = "") -> Any:
    """The document with every text in it changed, one for one."""
    if isinstance(value, dict):
        return {name: with_texts(one, change, name) for name, one in value.items()}
    if isinstance(value, list):
        return [with_texts(one, change, key) for one in value]
    if not isinstance(value, str) or key in FIXED or not value or value in ("allocated", "awaiting", "free"):
        return value
    return change(value)


def pages(document: dict[str, Any], chance: random.Random) -> tuple[str, str]:
    """The document's page with a plain word for each of its texts, and with a hostile text for each word."""
    numbers: dict[str, int] = {}

    def plain(text: str) -> str:
        return f"word{numbers.setdefault(text, len(numbers))}z"

    harmless = with_texts(document, plain)
    hostile_of: dict[str, str] = {}

    def hostile(text: str) -> str:
        if text not in hostile_of:
            pieces = [chance.choice(PIECES) for _ in range(chance.randrange(1, 4))]
            # The word keeps texts apart, and in the order in which they were.
            hostile_of[text] = chance.choice(["", "x"]) + text + "".join(pieces)
        return hostile_of[text]

    return page.render(conform(harmless)), page.render(conform(with_texts(harmless, hostile)))


@pytest.mark.parametrize("make", [samples.healthy, samples.leaking, samples.out_of_memory, samples.hostile])
def test_no_text_becomes_an_element_an_attribute_or_script(make: Callable[[], dict[str, Any]]) -> None:
    document = copy.deepcopy(make())
    for segment in document["segments"]:
        segment["blocks"] = segment["blocks"][:20]
    document["notes"] = [*document["notes"], "a note of the user's"]
    for number in range(ROUNDS):
        harmless, hostile = pages(document, random.Random(f"{make.__name__} {SEED} {number}"))
        expected, seen = Seen(harmless), Seen(hostile)
        case = f"{make.__name__}, case {number}"
        assert seen.structure == expected.structure, case
        assert seen.scripts == expected.scripts, case
        assert [name for name, _ in seen.values] == [name for name, _ in expected.values], case
        for name, value in seen.values:
            assert not name.startswith("on"), case
            if name in ("href", "src", "action", "formaction", "srcset"):
                assert value.startswith("#") or value == "data:,", f"{case}: {value}"
            if name == "style":
                assert re.fullmatch(r"[-\w\s:;.,%()#]*", value), f"{case}: {value}"
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", hostile), (
            case
        )
        hostile.encode()
    print(f"{make.__name__}: {ROUNDS} pages of {len(expected.structure)} tags")


def test_the_document_is_json_that_no_script_element_ends_in() -> None:
    """Reports are pasted into pages by others: the JSON form is ASCII and holds no lone surrogate as it is."""
    from frugal_alloc._report import files

    text = files.to_json(conform(samples.hostile()))
    assert text.isascii()
    assert json.loads(text)["schema"] == "frugal_alloc.report"
