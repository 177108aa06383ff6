"""The pictures of the documents are what tools/pictures draws."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("matplotlib", reason="tools/setup installs what draws the pictures")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from pictures import (  # noqa: E402
    detection,
    drawing,
    fragmentation,
    leak_growth,
    recorded,
    serving,
    tenants,
    turns,
)
from pictures.all_pictures import ALL, RECORDED, drawn, file_of, name_of  # noqa: E402
from pictures.line_chart import Line, LineChart, line_chart  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("one", ALL, ids=name_of)
def test_picture_is_what_the_command_draws(one: ModuleType) -> None:
    text = drawn(one)
    assert file_of(one).read_text(encoding="utf-8") == text
    # It is said in words, too.
    assert len(ElementTree.fromstring(text).attrib["aria-label"].split()) > 20


# The runs behind the others take ten seconds at most, and these up to two minutes each.
LONG = (detection, leak_growth, serving, tenants, turns)
RERUN = [one for one in RECORDED if one not in LONG or os.environ.get("FRUGAL_TEST_ALL") == "1"]


@pytest.mark.parametrize("one", RERUN, ids=name_of)
def test_run_behind_a_picture_still_gives_the_same_figures(one: ModuleType) -> None:
    committed = recorded.read(name_of(one))
    if committed.pop("versions")["torch"] != recorded.versions()["torch"]:
        pytest.skip("another torch may allocate otherwise")
    assert committed.pop("made_by") == recorded.COMMAND
    assert json.loads(json.dumps(one.record())) == committed


def test_stitch_moves_free_pieces_side_by_side_and_no_other() -> None:
    run = recorded.read("address_space")
    before, after = dict(run["before"]["pieces"]), dict(run["after"]["pieces"])
    start, size = run["wanted"]
    stitched = [after.pop(address) for address in range(start, start + size, 2 << 20)]
    free = [one for one in run["before"]["blocks"] if one[2] == "inactive"]
    were_free = {before[page] for address, length, _ in free for page in range(address, address + length, 2 << 20)}
    assert set(stitched) <= were_free and max(length for _, length, _ in free) < size
    assert after == {address: piece for address, piece in before.items() if piece not in stitched}
    assert run["before"]["reserved_bytes"] == run["after"]["reserved_bytes"]


def test_leak_runs_out_of_memory_in_the_epoch_that_was_forecast_and_its_healed_form_is_never_accused() -> None:
    run = recorded.read("leak_growth")
    epoch, _, left = next(one for one in run["leaking"]["forecasts"] if one[1] == "leak")
    assert abs(epoch + left - run["leaking"]["failed_in"]) < 1
    assert run["healed"]["failed_in"] is None and not any(kind for _, kind, _ in run["healed"]["forecasts"])


def test_training_needs_less_than_the_gpu_has_and_only_ours_completes_it() -> None:
    run = recorded.read("memory_over_time")
    assert max(size for _, size in run["live_bytes"]) < run["gpu_bytes"]
    assert {name for name in ("native", "expandable", "frugal") if run[name]["failed_at"] is None} == {"frugal"}


def test_request_of_the_picture_fits_into_no_run_of_free_pieces_and_into_all_of_them() -> None:
    longest = max(map(len, fragmentation.MEMORY.translate({ord(tensor): " " for tensor in "abcdef"}).split()))
    assert longest < fragmentation.REQUEST <= fragmentation.MEMORY.count(".")


def test_ticks_are_round_and_whole_where_the_points_are() -> None:
    lines = [Line("held", "ours", [(0, 1 << 30), (9, 1 << 30)])]
    chart = ElementTree.fromstring(line_chart(LineChart("Ticks", "step", "GiB", lines), "Ticks"))
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
