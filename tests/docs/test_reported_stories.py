"""The pages of stories that public reports tell say the figures that were recorded."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from frugal_alloc._command import report_files  # noqa: E402
from frugal_alloc._report import text  # noqa: E402
from pictures import recorded, reserved_growth, side_stream, tensorflow_growth  # noqa: E402

MIB = 1 << 20


def page(name: str) -> str:
    return " ".join(written(name).split())


def written(name: str) -> str:
    return (ROOT / "docs" / "stories" / f"{name}.md").read_text(encoding="utf-8")


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


def test_page_of_the_side_stream_tells_what_it_costs_with_each_allocator() -> None:
    said, data = page("side_stream"), recorded.read(side_stream.DATA)
    names = {"native": "PyTorch", "expandable": "PyTorch, expandable segments", "frugal": "frugal_alloc"}
    for allocator, name in names.items():
        runs = ("side_stream", "current_stream", "side_stream_tight")
        side, current, tight = (data[allocator][run]["reserved"] // MIB for run in runs)
        retries = data[allocator]["side_stream_tight"]["retries"]
        last = f"{tight:,}, {retries} retry" if retries else f"{tight:,}"
        assert f"| {name} | {side:,} | {current:,} | {side - current:,} | {last} |" in said
        assert [data[allocator][run]["retries"] for run in runs[:2]] == [0, 0]
    assert f"need {data['frugal']['side_stream']['allocated'] // MIB:,} MiB at most" in said
    assert f"expandable segments hold {data['expandable']['emptied']['reserved'] // MIB:,} MiB at most" in said


def test_page_of_the_side_stream_tells_what_new_streams_keep() -> None:
    said, transfers = page("side_stream"), recorded.read(side_stream.DATA)["transfers"]
    names = {
        "native": "PyTorch",
        "expandable": "PyTorch, expandable segments",
        "same_streams": "PyTorch, the same two streams",
        "frugal": "frugal_alloc",
    }
    assert set(names) == set(transfers)
    for run, name in names.items():
        held = [transfers[run][number - 1] // MIB for number in (1, 8, 16, 24)]
        assert f"| {name} | {' | '.join(f'{one:,} MiB' for one in held)} |" in said


def test_side_stream_keeps_twenty_gib_from_expandable_segments_and_a_tenth_of_it_from_ours() -> None:
    data = recorded.read(side_stream.DATA)
    cost = {
        name: data[name]["side_stream"]["reserved"] - data[name]["current_stream"]["reserved"]
        for name in ("expandable", "frugal")
    }
    assert cost["expandable"] == 20 << 30
    assert cost["frugal"] < cost["expandable"] / 10


def test_page_of_tensorflow_quotes_what_the_report_says() -> None:
    printed = text.render(report_files.read(tensorflow_growth.ARTEFACTS / "detector.log.gz"))
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", written("tensorflow"), re.DOTALL | re.MULTILINE)
    (quoted,) = (block for language, block in blocks if not language)
    assert quoted in printed


def test_page_of_tensorflow_tells_the_steps_and_the_memory_of_both_runs() -> None:
    said, data = page("tensorflow"), recorded.read(tensorflow_growth.DATA)
    leak = report_files.read(tensorflow_growth.ARTEFACTS / "detector.log.gz")["verdicts"][0]
    verdicts = {"growing": f"leak, {leak['bytes_per_step'] / MIB:.2f} MiB per step", "healed": "none"}
    for run, name in (("growing", "keeps the predictions"), ("healed", "healed")):
        steps, held, most = data[run][-1]
        assert f"| {name} | {steps} | {held / MIB:.0f} MiB | {most / MIB:,.0f} MiB | {verdicts[run]} |" in said
    first, failed = data["growing"][0][2], data["growing"][-1][0] + 1
    assert f"from {first / MIB:.0f} MiB to {data['growing'][-1][2] / MIB:,.0f} MiB" in said
    steps, _, most = data["healed"][-1]
    assert f"needs {most / MIB:.0f} MiB after {steps} steps" in said
    assert f"runs out in step {failed}" in said


def test_table_of_stories_tells_the_same_figures_as_their_pages() -> None:
    said = page("README")
    held = recorded.read(reserved_growth.DATA)
    both, *others, ours = (held[run][100][1] // MIB for run in ("both_options", "expandable", "native", "frugal"))
    assert f"{both:,} MiB with both, {others[0]} to {others[1]} with one or none, {ours} with ours" in said
    data = recorded.read(side_stream.DATA)["frugal"]
    cost = (data["side_stream"]["reserved"] - data["current_stream"]["reserved"]) / (1 << 30)
    assert f"keeps 20 GiB of expandable segments, and {cost:.1f} with ours" in said
    grown = recorded.read(tensorflow_growth.DATA)
    leak = report_files.read(tensorflow_growth.ARTEFACTS / "detector.log.gz")["verdicts"][0]
    assert f"{leak['bytes_per_step'] / MIB:.1f} MiB more with each step, told by the memory that its log prints" in said
    assert f"memory runs out in step {grown['growing'][-1][0] + 1}" in said
