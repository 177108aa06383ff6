"""The pages of stories that public reports tell say the figures that were recorded."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from pictures import recorded, reserved_growth  # noqa: E402

MIB = 1 << 20


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / "stories" / f"{name}.md").read_text(encoding="utf-8").split())


def test_page_of_fragmentation_tells_what_each_allocator_held() -> None:
    said, data = page("fragmentation"), recorded.read(reserved_growth.DATA)
    names = {
        "both_options": "PyTorch, both settings",
        "native": "PyTorch, no setting",
        "max_split": "PyTorch, `max_split_size_mb:128`",
        "expandable": "PyTorch, `expandable_segments:True`",
        "frugal": "frugal_alloc",
        "frugal_both_options": "frugal_alloc, both settings",
    }
    assert set(names) == set(reserved_growth.RUNS)
    for run, name in names.items():
        requests = data[run]
        (allocated, held, _), most = requests[100], max(held for _, held, _ in requests)
        row = f"| {name} | {allocated // MIB} MiB | {held // MIB:,} MiB | {most // MIB:,} MiB |"
        assert row in said
        assert f"most held in {len(requests)} requests" in said


def test_both_settings_hold_what_the_report_lists_at_each_of_its_cycles() -> None:
    requests = recorded.read(reserved_growth.DATA)["both_options"]
    listed = [held // MIB for _, held, _ in requests[:101:20]]
    assert listed == [220, 2980, 5760, 8520, 11300, 14060]
    assert [allocated // MIB for allocated, _, _ in requests[:101:20]] == [66, 106, 146, 186, 226, 266]
    assert all(f"{held:,}" in page("fragmentation") for held in listed)


def test_page_of_fragmentation_tells_when_free_memory_is_given_back() -> None:
    requests = recorded.read(reserved_growth.DATA)["both_options"]
    request = reserved_growth.first_retry(requests)
    before, after = requests[request - 1][1], requests[request][1]
    said = page("fragmentation")
    assert f"At request {request} the GPU is full" in said and f"goes on with {after // MIB:,} MiB" in said
    assert f"grows to {before // MIB:,} MiB by request {request - 1}" in said
