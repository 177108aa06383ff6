"""The pictures of the documents are what tools/pictures draws."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="tools/setup installs what draws the pictures")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from pictures import cases, drawing, fragmentation, runs  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("picture", cases.PICTURES)
def test_picture_is_what_the_command_draws(picture: str) -> None:
    text = cases.drawn(picture)
    assert cases.file_of(picture).read_text(encoding="utf-8") == text
    # It is said in words, too.
    assert len(ElementTree.fromstring(text).attrib["aria-label"].split()) > 20


# The runs behind the others take ten seconds at most, and these up to two minutes each.
LONG = () if os.environ.get("FRUGAL_TEST_ALL") == "1" else ("detection", "leak_growth", "serving", "tenants", "turns")


@pytest.mark.parametrize("name", [name for name, one in cases.SHOWN.items() if one.record and name not in LONG])
def test_run_behind_a_picture_still_gives_the_same_figures(name: str) -> None:
    committed = runs.read(name)
    if committed.pop("versions")["torch"] != runs.versions()["torch"]:
        pytest.skip("another torch may allocate otherwise")
    assert committed.pop("made_by") == runs.COMMAND
    assert json.loads(json.dumps(cases.SHOWN[name].record())) == committed


def test_leak_runs_out_of_memory_in_the_epoch_that_was_forecast_and_its_healed_form_is_never_accused() -> None:
    run = runs.read("leak_growth")
    epoch, _, left = next(one for one in run["leaking"]["forecasts"] if one[1] == "leak")
    assert abs(epoch + left - run["leaking"]["failed_in"]) < 1
    assert run["healed"]["failed_in"] is None and not any(kind for _, kind, _ in run["healed"]["forecasts"])


def test_request_of_the_picture_fits_into_no_run_of_free_pieces_and_into_all_of_them() -> None:
    longest = max(map(len, fragmentation.MEMORY.translate({ord(tensor): " " for tensor in "abcdef"}).split()))
    assert longest < fragmentation.REQUEST <= fragmentation.MEMORY.count(".")


def test_ticks_are_round_and_whole_where_the_points_are() -> None:
    lines = [drawing.Line("held", "ours", [(0, 1 << 30), (9, 1 << 30)])]
    chart = ElementTree.fromstring(drawing.chart(drawing.Chart("Ticks", "step", "GiB", lines), "Ticks"))
    texts = [one.text for one in chart.iter(f"{SVG}text")]
    assert texts.count("step") == 2 and texts[: texts.index("step")] == ["0", "2", "4", "6", "8"]


@pytest.mark.parametrize("page", ["light", "dark"])
def test_text_can_be_read_on_its_background(page: str) -> None:
    background = _luminance(getattr(drawing.COLOURS["background"], page))
    for name, colour in drawing.TEXT.items():
        lighter, darker = sorted((_luminance(getattr(colour, page)), background), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, name


def _luminance(colour: str) -> float:
    """As the Web Content Accessibility Guidelines reckon it, from #rrggbb."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
