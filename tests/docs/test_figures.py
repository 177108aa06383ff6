"""Documents tell the figures that were recorded, and quote what was printed: `python tools/pictures` writes both."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="tools/setup installs what draws the pictures")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from pictures import cases, pages, runs  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize("document", pages.DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_document_has_the_figures_that_were_recorded(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert text == pages.filled(document, cases.told()), (
        f"`{pages.COMMAND}` writes what was recorded into the documents"
    )


def test_each_figure_and_each_picture_is_in_a_document() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in pages.DOCUMENTS)
    named = {(module, key) for module, key, _ in pages.MARK.findall(texts)}
    assert {(module, key) for module, figures in cases.told().items() for key in figures if key != "said"} == named
    assert [one for one in cases.PICTURES if f"/{one}.svg)" not in texts] == []


def test_a_figure_is_put_in_place_of_the_one_before_and_a_table_keeps_its_head(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "<!--a.most-->{}<!--/--> GiB.\n\n<!--a.rows-->\n\n| x |\n| --: |\n{}\n\n<!--/-->\n\n![{}](b/a.svg)"
    page.write_text(text.format("7", "| 7 |", "old\nwords"))
    new = {"most": "8", "rows": "| 8 |\n| 9 |", "said": "New."}
    assert pages.filled(page, {"a": new}) == text.format(*new.values())
    with pytest.raises(KeyError, match="most"):
        pages.filled(page, {"a": {}})


def test_quotation_keeps_its_fence(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "<!--a.error-->\n\n```text\n{}```\n\n<!--/-->\n"
    page.write_text(text.format(""))
    for said in ("one\ntwo", "one"):
        page.write_text(pages.filled(page, {"a": {"error": said}}))
        assert page.read_text() == text.format(f"{said}\n")


def test_excerpt_has_the_verdict_and_the_entries_that_are_named_and_dots_for_the_rest() -> None:
    parts = ["CUDA out of memory. 1.", "Too big: 2\nby 3.", "Request  4\n         at 5", "Held  6", "Tried  7"]
    error = "\n".join([*parts, "Change first  8\n    or 9"])
    excerpt = "...\nToo big: 2\nby 3.\n...\nChange first  8\n    or 9"
    assert pages.excerpt(error, "Change first") == excerpt
    assert pages.excerpt(error, "CUDA out of memory", "Request") == "\n".join([*parts[:3], "..."])


def test_both_settings_hold_what_the_report_lists_at_each_of_its_cycles() -> None:
    requests = runs.read("reserved_growth")["both_options"]["requests"]
    assert [held // MIB for _, held, _ in requests[:101:20]] == [220, 2980, 5760, 8520, 11300, 14060]
    assert [allocated // MIB for allocated, _, _ in requests[:101:20]] == [66, 106, 146, 186, 226, 266]


def test_side_stream_keeps_twenty_gib_from_expandable_segments_and_a_tenth_of_it_from_ours() -> None:
    data = runs.read("side_stream")
    held = [[data[f"{name}_{run}"]["reserved"] for run in ("side", "current")] for name in ("expandable", "frugal")]
    expandable, ours = (side - current for side, current in held)
    assert expandable == 20 * GIB and ours < expandable / 10


def test_ours_stays_flat_where_streams_are_new_each_time_and_where_tables_come_back() -> None:
    transfers = runs.read("fresh_streams")["frugal"]["held"]
    assert max(transfers) == transfers[1] <= 3 * GIB
    stash = runs.read("embedding_stash")
    assert all(used == held for used, held in stash["frugal"]["steps"])
    assert all(held - used == 16 * GIB for used, held in stash["native"]["steps"])


def test_detection_completes_with_ours_where_it_does_with_expandable_segments() -> None:
    data = runs.read("detection")
    assert data["largest_batch"]["frugal"] == data["largest_batch"]["expandable"]
    assert all(data[f"mixed_{one}"]["failed_in"] for one in cases.ALLOCATORS)
    assert [data[one]["failed_in"] is None for one in cases.ALLOCATORS] == [False, True, True]


def test_leak_is_named_by_our_error_alone() -> None:
    data = runs.read("leak_growth")
    assert "Leak:" in data["leaking"]["error"] and "Leak:" not in data["native"]["error"]


def test_tenants_complete_with_ours_alone_where_nobody_gives_back() -> None:
    data = runs.read("tenants")
    assert {one: data[f"{one}_keeps"]["failed"] for one in cases.ALLOCATORS} == {
        **dict.fromkeys(("native", "expandable"), "server"),
        "frugal": None,
    }


def test_tenants_settings_do_what_the_page_says() -> None:
    data = runs.read("tenants")
    by_setting, by_call = (
        [(who, *memory) for who, _, *memory in data[name]["turns"]]
        for name in ("frugal_idle_release", "frugal_gives_back")
    )
    assert by_setting == by_call
    # Of 8 GiB each process has a CUDA context of half a GiB.
    busy = max(used for _, action, used, _, _ in data["frugal_gives_back"]["turns"] if action == "busy")
    assert abs((cases.TENANTS_LIMIT << 20) - (7 * GIB - busy)) < GIB / 32
    assert [turn[1] for turn in data["frugal_limit"]["turns"]].count("train") == 1
    assert "may hold 3.25 GiB of it (frugal_alloc's memory_limit)" in data["frugal_limit"]["error"]


def test_turns_copy_what_lives_and_give_all_of_it_back_with_ours_and_more_with_segments() -> None:
    data = runs.read("turns")
    assert [name for name, run in data.items() if isinstance(run, dict) and run.get("error")] == [
        "keep_1",
        "keep_2",
        "saver_2",
    ]

    def sums(run: str) -> tuple[int, ...]:
        sleeps = [event for event in data[run]["turn"] if event["action"] == "sleep"]
        return tuple(sum(event[key] for event in sleeps) for key in ("copied", "given_back", "live", "dropped"))

    for other, ours in (("saver_1", "frugal_1"), ("vllm_1", "frugal_1"), ("vllm_2", "frugal_2")):
        copied, given_back, live, dropped = sums(ours)
        assert copied <= 1.001 * live and given_back >= 0.98 * (live + dropped)
        assert sums(other)[0] > copied and data[other]["most"] > data[ours]["most"]
