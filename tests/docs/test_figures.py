"""Documents tell the figures that were recorded, and quote what was printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="tools/setup installs what draws the pictures")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from frugal_alloc._command import report_files  # noqa: E402
from frugal_alloc._report import text  # noqa: E402
from pictures import (  # noqa: E402
    detection,
    leak_growth,
    pages,
    recorded,
    serving,
    tenants,
    tensorflow_growth,
)
from pictures.all_pictures import ALL, file_of, name_of, told  # noqa: E402

STORIES = sorted(path for path in (ROOT / "docs" / "stories").glob("*.md") if path.stem != "README")
MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize("document", pages.DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_document_has_the_figures_that_were_recorded(document: Path) -> None:
    assert document.read_text(encoding="utf-8") == pages.filled(document, told())


def test_each_figure_and_each_picture_is_in_a_document() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in pages.DOCUMENTS)
    named = {(module, key) for module, key, _ in pages.MARK.findall(texts)}
    assert {(module, key) for module, figures in told().items() for key in figures if key != "said"} == named
    assert [file_of(one).name for one in ALL if f"{file_of(one).name})" not in texts] == []


def test_a_figure_is_put_in_place_of_the_one_before_and_a_table_keeps_its_head(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "<!--a.most-->{}<!--/--> GiB.\n\n<!--a.rows-->\n\n| x |\n| --: |\n{}\n\n<!--/-->\n\n![{}](b/a.svg)"
    page.write_text(text.format("7", "| 7 |", "old\nwords"))
    new = {"most": "8", "rows": "| 8 |\n| 9 |", "said": "New."}
    assert pages.filled(page, {"a": new}) == text.format(*new.values())
    with pytest.raises(KeyError, match="most"):
        pages.filled(page, {"a": {}})


def printed() -> list[str]:
    """All that runs of stories have printed and that is recorded."""

    def strings(value: Any) -> list[str]:
        found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [value] if isinstance(value, str) else [one for part in found for one in strings(part)]

    runs = [strings(recorded.read(name_of(one))) for one in (detection, leak_growth, serving, tenants)]
    report = text.render(report_files.read(tensorflow_growth.ARTEFACTS / "detector.log.gz"))
    return [*(one for run in runs for one in run), report]


def is_shortened(block: str, whole: str) -> bool:
    """Whether a block has lines of the whole in their order, where `...` stands for those left out."""
    parts = map(re.escape, (part.rstrip("\n") for part in block.split("...\n")))
    return re.search(".*\n".join(parts), whole, re.DOTALL) is not None


@pytest.mark.parametrize("page", STORIES, ids=lambda path: path.stem)
def test_story_quotes_what_was_printed(page: Path) -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    quoted = [block for language, block in blocks if language in ("", "text")]
    assert [block for block in quoted if not any(is_shortened(block, whole) for whole in printed())] == []


def test_table_of_stories_has_every_story_by_its_title() -> None:
    table = (ROOT / "docs" / "stories" / "README.md").read_text(encoding="utf-8")
    titles = {page: title for title, page in re.findall(r"^\| \[([^\]]*)\]\((\w+)\.md\)", table, re.MULTILINE)}
    assert set(titles) == {page.stem for page in STORIES}
    for page in STORIES:
        assert page.read_text(encoding="utf-8").startswith(f"# {titles[page.stem]}"), page


def test_both_settings_hold_what_the_report_lists_at_each_of_its_cycles() -> None:
    requests = recorded.read("reserved_growth")["both_options"]
    assert [held // MIB for _, held, _ in requests[:101:20]] == [220, 2980, 5760, 8520, 11300, 14060]
    assert [allocated // MIB for allocated, _, _ in requests[:101:20]] == [66, 106, 146, 186, 226, 266]


def test_side_stream_keeps_twenty_gib_from_expandable_segments_and_a_tenth_of_it_from_ours() -> None:
    data = recorded.read("side_stream")
    runs = [
        [data[name][run]["reserved"] for run in ("side_stream", "current_stream")] for name in ("expandable", "frugal")
    ]
    expandable, ours = (side - current for side, current in runs)
    assert expandable == 20 * GIB and ours < expandable / 10


def test_detection_completes_with_ours_where_it_does_with_expandable_segments() -> None:
    data = recorded.read("detection")
    assert data["largest_batch"]["frugal"] == data["largest_batch"]["expandable"]
    assert data["native"]["failed_in"] and not data["expandable"]["failed_in"] and not data["frugal"]["failed_in"]


def test_leak_is_named_by_our_error_alone() -> None:
    data = recorded.read("leak_growth")
    assert "Leak:" in data["leaking"]["error"] and "Leak:" not in data["native"]["error"]


def test_tenants_settings_do_what_the_page_says() -> None:
    data = recorded.read("tenants")
    by_setting, by_call = (
        [(who, *memory) for who, _, *memory in data[name]["turns"]]
        for name in ("frugal_idle_release", "frugal_gives_back")
    )
    assert by_setting == by_call
    busy = max(used for _, action, used, _, _ in data["frugal_gives_back"]["turns"] if action == "busy")
    assert abs((int(tenants.RUNS["frugal_limit"][-1]) << 20) - (tenants.AVAILABLE - busy)) < GIB / 32
    assert [turn[1] for turn in data["frugal_limit"]["turns"]].count("train") == 1
    assert "may hold 3.25 GiB of it (frugal_alloc's memory_limit)" in data["frugal_limit"]["error"]
