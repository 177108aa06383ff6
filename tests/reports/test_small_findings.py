"""What is not material is counted and told last: no headline, no badge, no alarm. Nothing is told as certain."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import report_samples as samples
from drawn_pages import text_of
from frugal_alloc._report import page, text
from frugal_alloc._report.compare import compare, to_text
from frugal_alloc._report.headline import headline
from frugal_alloc._report.join import join
from frugal_alloc._report.schema import BadDocument, conform

SENTENCE = "at this rate memory would last for more than 10,000 epochs and 1,000,000 steps"
GREY = "\x1b[90m"


def only_small() -> dict[str, Any]:
    return conform(samples.with_small_leaks(samples.healthy()))


def large_and_small() -> dict[str, Any]:
    return conform(samples.with_small_leaks(samples.leaking()))


def shown(document: dict[str, Any]) -> str:
    """The words of a page."""
    return text_of(page.render(document))


def test_a_report_that_does_not_say_what_is_material_is_judged_as_it_is_read() -> None:
    assert [one["material"] for one in large_and_small()["verdicts"]] == [True, True, False, False]
    assert all("material" not in one for one in samples.with_small_leaks(samples.leaking())["verdicts"])


def test_what_a_report_says_of_it_is_believed() -> None:
    document = samples.leaking()
    document["verdicts"][0]["material"] = False
    assert [one["material"] for one in conform(document)["verdicts"]] == [False, True]
    document["verdicts"][0]["material"] = "no"
    with pytest.raises(BadDocument, match=r"verdicts\[0\]\.material: true or false is wanted"):
        conform(document)


def test_small_ones_alone_make_no_headline_and_no_alarm() -> None:
    assert headline(only_small()) == ("No large leak found in 12 epochs", "good")
    rendered = page.render(only_small())
    assert '<header class="good">' in rendered
    assert 'class="verdict' not in rendered
    assert "What to change" not in rendered
    assert text.render(only_small()).startswith("frugal_alloc: no large leak after 12 epochs")


def test_small_ones_are_not_counted_among_the_findings() -> None:
    assert headline(large_and_small()) == headline(conform(samples.leaking()))
    first_lines = text.render(large_and_small()).partition("GPU 0")[0]
    assert first_lines == text.render(conform(samples.leaking())).partition("GPU 0")[0]


@pytest.mark.parametrize("make", [only_small, large_and_small])
def test_small_ones_are_told_last_and_in_grey(make: Any) -> None:
    lines = text.render(make(), colour=True).splitlines()
    start = next(number for number, line in enumerate(lines) if "2 small ones" in line)
    assert [line.startswith(GREY) for line in lines] == [False] * start + [True] * (len(lines) - start)
    told = " ".join(" ".join(text.render(make()).splitlines()[start:]).split())
    assert f"2 small ones: {SENTENCE}" in told
    assert "log.py:12 in log: 1.50 KiB per epoch, held by list 'kept' (" in told
    assert told.count("-> ") >= 1
    assert "log.py:19 in log: 512 bytes per epoch" in told
    sections = re.findall(r'<section([^>]*) aria-labelledby="(\w+)"', page.render(make()))
    assert sections[-1] == (' class="quiet"', "small")
    words = shown(make()).rpartition("Small findings")[2]
    assert f"2 small ones: {SENTENCE}." in words
    assert "ada/log.py:12 leaks 1.50 KiB with each epoch, held by list 'kept'" in words


def test_their_number_is_told_and_of_many_not_all() -> None:
    document = only_small()
    first, second = document["verdicts"]
    for verdicts, said in (([], ""), ([first], "1 small one: ")):
        document["verdicts"] = verdicts
        for told in (text.render(document), shown(document)):
            assert said in told and ("small" in told.lower()) == bool(said)
    document["verdicts"] = [second | {"line": line, "pattern": ""} for line in range(9)]
    last = text.render(document).splitlines()[-2:]
    assert last[-1] == "  and 4 more"
    assert "log.py:4 " in last[-2]


def test_of_several_ranks_a_leak_is_material_that_is_to_one() -> None:
    ranks = [samples.rank(number, 2, only_small()) for number in range(2)]
    assert [one["material"] for one in join(copy.deepcopy(ranks))["verdicts"]] == [False, False]
    ranks[1]["verdicts"][1]["material"] = True
    joined = join(ranks)
    assert [(one["line"], one["material"], one["ranks"]) for one in joined["verdicts"]] == [
        (19, True, [0, 1]),
        (12, False, [0, 1]),
    ]
    assert "0 findings, 2 small ones" in shown(joined)
    assert "1 finding, 1 small one" in shown(joined)


def test_a_comparison_counts_small_ones_and_tells_those_that_became_large() -> None:
    before, after = only_small(), only_small()
    new = copy.deepcopy(after["verdicts"][0]) | {"code": "other"}
    after["verdicts"][0]["material"] = True
    after["verdicts"].append(new)
    changes = compare(before, after)
    assert [one["material"] for one in changes["verdicts"]["new"]] == [False]
    told = to_text(changes)
    assert "  still: ada/log.py:12 leaks 1.50 KiB with each epoch (before: 1.50 KiB)\n" in told
    assert "  and of small ones 1 new, 1 still\n" in told
    assert "new:" not in told
    assert "small ones" not in to_text(compare(conform(samples.leaking()), conform(samples.leaking())))


@pytest.mark.parametrize("confidence", [0.9951, 0.99999, 1.0, 7.0])
def test_no_confidence_reads_as_certain(confidence: float) -> None:
    document = samples.leaking()
    document["verdicts"][0]["confidence"] = confidence
    formed = conform(document)
    assert formed["verdicts"][0]["confidence"] == 0.99
    assert "confidence 99%" in text.render(formed)
    assert "Confidence 99 %" in shown(document)
