"""The pages of stories tell the figures that were recorded, and the errors and reports as they were printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from pictures import detection, leak_growth, recorded, serving, tenants  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "docs"))
from told_figures import GIB, assert_told, gib, word  # noqa: E402

NAMES = {"native": "PyTorch", "expandable": "expandable segments", "frugal": "frugal_alloc"}


def text(name: str) -> str:
    return (ROOT / "docs" / "stories" / f"{name}.md").read_text(encoding="utf-8")


def words(name: str) -> str:
    return " ".join(text(name).split())


def printed(name: str) -> list[str]:
    """The blocks of what a program prints."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text(name), re.MULTILINE | re.DOTALL)
    return [block for language, block in fences if language in ("", "text")]


def is_shortened(block: str, whole: str) -> bool:
    """Whether a block has lines of the whole in their order, where `...` stands for those left out."""
    at = 0
    for part in block.split("...\n"):
        found = whole.find(part.rstrip("\n"), at)
        if found < 0:
            return False
        at = found + len(part.rstrip("\n"))
    return True


def most(run: dict[str, Any]) -> tuple[int, int]:
    """The most in use, and the most held."""
    used, held = zip(*run["steps"], strict=True)
    return max(used), max(held)


def test_detection_tells_how_each_run_ended_and_what_it_held() -> None:
    data, said = recorded.read(detection.DATA), words("detection")
    for name, arguments in detection.RUNS.items():
        run, seed = data[name], arguments[arguments.index("--seed") + 1]
        end = (
            f"out of memory in step {run['failed_in']}" if run["failed_in"] else f"completes {len(run['steps'])} steps"
        )
        allocator = NAMES[arguments[arguments.index("--allocator") + 1]]
        used, held = map(gib, most(run))
        assert f"| {allocator} | {seed} | {used} | {held} | {end} |" in said, name
    assert said.count("| out of memory in step ") + said.count("| completes ") == len(detection.RUNS)


def test_detection_tells_the_largest_batch_of_each_allocator_in_each_order() -> None:
    data, said = recorded.read(detection.DATA), text("detection")
    orders = " | ".join(f"seed {order}" for order in detection.ORDERS)
    rows = [f"| {NAMES[one]} | {' | '.join(map(str, data['largest_batch'][one]))} |" for one in NAMES]
    assert "\n".join([f"| allocator | {orders} |", "| --- | ---: | ---: | ---: | ---: |", *rows]) in said
    assert data["largest_batch"]["frugal"] == data["largest_batch"]["expandable"]
    # The runs of the page itself have three images a step.
    for name, arguments in detection.RUNS.items():
        if "--grouped" in arguments:
            order = detection.ORDERS.index(arguments[arguments.index("--seed") + 1])
            largest = data["largest_batch"][arguments[arguments.index("--allocator") + 1]][order]
            assert (data[name]["failed_in"] is None) == (largest >= 3), name


def test_detection_fails_in_pieces_with_pytorch_and_for_want_of_memory_with_mixed_batches() -> None:
    data, said = recorded.read(detection.DATA), words("detection")
    (block,) = printed("detection")
    assert is_shortened(block, data["mixed_frugal"]["error"] + "\n") and "Too big" in block
    refused = re.search(r"Tried to allocate (\S+ MiB)", data["native"]["error"])
    idle = re.search(r"and (\S+ MiB) is reserved by PyTorch but unallocated", data["native"]["error"])
    assert refused and idle and f"refuses {refused[1]} while {idle[1]} of what it holds are free" in said
    failed, needs = data["native"]["failed_in"], data["frugal"]["steps"]
    assert f"out of memory in step {failed}, in which tensors need {gib(needs[failed - 1][0])}" in said
    assert (
        f"CUDA says {gib(data['native']['gpu_bytes'])}" in said
        and f"Tensors need {gib(most(data['frugal'])[0])}" in said
    )


def test_leak_tells_how_each_run_ended() -> None:
    data, said = recorded.read(leak_growth.DATA), words("leak")
    for run, name in {**NAMES, "leaking": "frugal_alloc", "healed": "frugal_alloc, healed"}.items():
        if run != "frugal":
            used, failed = data[run]["most_in_use_and_held"][0], data[run]["failed_in"]
            end = f"out of memory in epoch {failed}" if failed else f"completes {len(data[run]['forecasts'])} epochs"
            assert f"| {name} | {end} | {used / (1 << 20):,.0f} MiB |" in said, name
    assert "Leak:" in data["leaking"]["error"] and "Leak:" not in data["native"]["error"]


def test_leak_has_the_report_and_the_error_as_they_were_printed() -> None:
    leaking = recorded.read(leak_growth.DATA)["leaking"]
    report, error = printed("leak")
    assert report == leaking["report"] + "\n"
    assert is_shortened(error, leaking["error"] + "\n") and f"the error in epoch {leaking['failed_in']} says" in words(
        "leak"
    )
    epoch, _, left = next(one for one in leaking["forecasts"] if one[1] == "leak")
    assert f"After epoch {epoch} the report tells the leak, and that memory would last for {left:.1f} more" in words(
        "leak"
    )


def test_serving_tells_what_each_run_held_and_how_it_ended() -> None:
    data, said = recorded.read(serving.DATA), words("serving")
    for name in serving.RUNS:
        run, (allocator, budget) = data[name], name.split("_")
        end = f"out of memory after {run['completed']} requests" if run["failed"] else "serves on"
        served = f"{run['most_tokens']:,} | {run['completed']} | {run['evicted']} | {gib(most(run)[1])}"
        assert f"| {budget} | {NAMES[allocator]} | {served} | {end} |" in said, name
    assert said.count("| serves on |") + said.count("| out of memory after ") == len(serving.RUNS)
    assert f"{gib(data['frugal_0.88']['available_bytes'])} of a GPU of {data['gpu'].replace('GiB', ' GiB')}" in said


def test_serving_compares_the_largest_budgets_that_serve_on() -> None:
    data, said = recorded.read(serving.DATA), words("serving")
    tokens = {one: max(data[name]["most_tokens"] for name in served(data, one)) for one in NAMES}
    ours = tokens["frugal"]
    assert f"hold {tokens['native']:,} tokens with PyTorch, {tokens['expandable']:,} with expandable segments" in said
    more = " and ".join(f"{100 * (ours / tokens[one] - 1):.0f} %" for one in ("native", "expandable"))
    assert f"{ours:,} with frugal_alloc: {more} more" in said
    error = data["native_0.92"]["error"]
    refused = re.search(r"Tried to allocate (\S+ MiB).* and (\S+ MiB) is reserved by PyTorch but unallocated", error)
    assert refused and f"PyTorch refuses {refused[1]} while {refused[2]} of what it holds are free" in said
    verdict = "Leak, or a cache that still fills"
    assert f"\n{verdict}: " in data["frugal_0.98"]["error"] and f'"{verdict}"' in said


def served(data: dict[str, Any], allocator: str) -> list[str]:
    """The runs of an allocator that did not run out of memory."""
    return [name for name in serving.RUNS if name.startswith(allocator) and not data[name]["failed"]]


def held_in(run: dict[str, Any], action: str) -> str:
    held = [held for _, done, _, _, held in run["turns"] if done == action]
    return gib(max(held)) if held else "-"


def test_tenants_tells_what_each_run_held_and_how_it_ended() -> None:
    data, said = recorded.read(tenants.DATA), words("tenants")
    limit = int(tenants.RUNS["frugal_limit"][-1]) << 20
    gives = {"keeps": "no", "gives_back": "yes", "idle_release": "by `idle_release`"}
    gives["limit"] = f"no, `memory_limit` of {gib(limit)}"
    for name in tenants.RUNS:
        run, (allocator, how) = data[name], name.split("_", 1)
        end = f"the {run['failed']} runs out of memory" if run["failed"] else "both complete"
        held = (held_in(run, "evaluate"), held_in(run, "busy"), gib(max(held for _, held in tenants.both(run))))
        assert f"| {NAMES[allocator]} | {gives[how]} | {' | '.join(held)} | {end} |" in said, name
    assert said.count("| both complete |") + said.count("runs out of memory |") == len(tenants.RUNS)


def test_tenants_tells_what_the_settings_do() -> None:
    data, said = recorded.read(tenants.DATA), words("tenants")
    by_setting, by_call = (
        [(who, *memory) for who, _, *memory in data[name]["turns"]]
        for name in ("frugal_idle_release", "frugal_gives_back")
    )
    assert by_setting == by_call and "`idle_release` leaves the same as `empty_cache()`, to the byte" in said
    limit = int(tenants.RUNS["frugal_limit"][-1]) << 20
    trains, answers = (most_in_use(data["frugal_gives_back"], action) for action in ("train", "busy"))
    assert abs(limit - (tenants.AVAILABLE - answers)) < GIB / 32
    failed = data["frugal_limit"]["turns"][-1]
    assert failed[1] == "train" and [turn[1] for turn in data["frugal_limit"]["turns"]].count("train") == 1
    assert f"a step of the training needs {gib(trains)}, so the first one fails" in said
    assert f"may hold {gib(limit)} of it (frugal_alloc's memory_limit)" in data["frugal_limit"]["error"]


def most_in_use(run: dict[str, Any], action: str) -> int:
    return max(used for _, done, used, _, _ in run["turns"] if done == action)


def test_tenants_tells_what_is_in_use_beside_what_is_held_and_the_error_as_it_was_printed() -> None:
    data, said = recorded.read(tenants.DATA), words("tenants")
    most = {action: most_in_use(data["frugal_gives_back"], action) for action in ("evaluate", "busy")}
    assert f"in evaluation the training has {gib(most['evaluate'])} in use" in said
    assert f"The busy server has {gib(most['busy'])} in use" in said
    (block,) = printed("tenants")
    assert is_shortened(block, data["frugal_keeps"]["error"] + "\n") and "Memory outside PyTorch" in block


def rows() -> dict[str, tuple[str, str]]:
    """Of each story in their table: the title and what follows it, and the figures."""
    found = re.findall(r"^\| \[([^\]]*)\]\((\w+)\.md\).* \| (.*) \|$", text("README"), re.MULTILINE)
    return {page: (title, figures) for title, page, figures in found}


def of_detection() -> list[str]:
    data = recorded.read(detection.DATA)
    orders = [data["native" if one == "3" else f"native_seed_{one}"]["failed_in"] for one in detection.ORDERS]
    assert not data["expandable"]["failed_in"] and not data["frugal"]["failed_in"]
    expandable, ours = (gib(most(data[one])[1]) for one in ("expandable", "frugal"))
    return [
        f"in {word(sum(map(bool, orders)))} of {word(len(orders))} orders of the images memory runs out with PyTorch",
        f"{expandable} suffice with expandable segments, {ours.removesuffix(' GiB')} with ours",
    ]


def of_leak() -> list[str]:
    run = recorded.read(leak_growth.DATA)["leaking"]
    epoch = next(one for one in run["forecasts"] if one[1] == "leak")[0]
    return [f"found after epoch {epoch} with", f"{run['failed_in'] - epoch} epochs before memory runs out"]


def of_serving() -> list[str]:
    data = recorded.read(serving.DATA)
    tokens = {one: max(data[name]["most_tokens"] for name in served(data, one)) for one in NAMES}
    return [
        f"{tokens['native']:,} tokens held with PyTorch, {tokens['expandable']:,} with expandable segments, "
        f"{tokens['frugal']:,} with ours"
    ]


def of_tenants() -> list[str]:
    data = recorded.read(tenants.DATA)
    held = {one: gib(max(held for _, held in tenants.both(data[f"{one}_gives_back"]))) for one in NAMES}
    native, expandable, ours = (one.removesuffix(" GiB") for one in held.values())
    assert {name.partition("_")[2] for name in tenants.RUNS if not data[name]["failed"]} == {
        "gives_back",
        "idle_release",
    }
    return [
        f"on {data['gpu'].replace('GiB', ' GiB')} both fit once free memory goes back",
        f"they hold {native} GiB at most with PyTorch, {expandable} with expandable segments, {ours} with ours",
    ]


ROWS = {"detection": of_detection, "leak": of_leak, "serving": of_serving, "tenants": of_tenants}


@pytest.mark.parametrize("story", ROWS)
def test_table_of_stories_has_the_figures_of_a_story_and_no_others(story: str) -> None:
    assert_told(rows()[story][1], ROWS[story]())


def test_table_of_stories_has_every_story_by_its_title() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "stories").glob("*.md")} - {"README"}
    titles = {page: title for page, (title, _) in rows().items()}
    assert set(titles) == pages
    for page, title in titles.items():
        assert text(page).startswith(f"# {title}"), page
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"{word(len(pages))} reported cases with figures, from a detector on 8 GiB to a stream that holds 20 GiB"
        in readme
    )
    assert "on 8 GiB" in titles["detection"] and "stream that holds 20 GiB" in titles["side_stream"]
