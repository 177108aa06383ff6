"""The page of a report says what the document says; test_every_page.py has what holds for all pages."""

from __future__ import annotations

import re

import report_samples as samples
from drawn_pages import text_of
from frugal_alloc._report import page, text
from frugal_alloc._report.address_space import address_spaces
from frugal_alloc._report.flame import flame
from frugal_alloc._report.schema import conform


def test_the_verdict_comes_first_with_its_line_code_rate_and_remedy() -> None:
    text = text_of(page.render(samples.leaking()))
    parts = [
        "ada/train.py:42 leaks 768.00 MiB with each epoch",
        "losses.append(loss)",
        "append loss.item()",
        "9.00 GiB in 21,600 blocks",
        "about 7.3 epochs (731 steps)",
        "99 %",
        "list 'losses'",
        "Memory over time",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_pictures_open_at_the_moment_that_the_verdict_is_about() -> None:
    document = samples.leaking()
    assert 'id="bytes" checked' in page.render(document)
    # The function that held it has returned.
    document["verdicts"][0] |= {"bytes_now": 0, "blocks_now": 0}
    rendered = page.render(document)
    assert 'id="peak_bytes" checked' in rendered and 'id="bytes" checked' not in rendered
    assert '<th>now</th><th aria-sort="descending">near the peak</th>' in rendered


def test_out_of_memory_says_what_was_asked_for_and_what_to_change() -> None:
    text = text_of(page.render(samples.out_of_memory()))
    for part in (
        "Out of memory: this step needs 1.86 GiB more than the GPU has",
        "3.00 GiB was asked for; 1.86 GiB were missing",
        "models/unet.py:57",
        "x = self.down(x) + skip",
        "batch 24 would have fit",
        "python garbage: nothing gained",
        "tensors 21.00 GiB",
        "CUDA out of memory. Tried to allocate 3.00 GiB.",
    ):
        assert part in text, part


def test_a_healthy_run_is_said_to_be_one() -> None:
    text = text_of(page.render(samples.healthy()))
    assert "No leak found in 12 epochs" in text
    assert "What to change" not in text


def test_the_time_that_the_driver_took_is_said() -> None:
    said = "4,818 calls of the driver took 304 ms, most of it set_access: 210 calls, 170 ms, the longest 41 ms"
    assert said in page.render(samples.healthy())
    assert said in " ".join(text.render(samples.healthy()).split())
    silent = samples.healthy()
    del silent["gpus"][0]["driver_calls"]
    assert "of the driver" not in page.render(silent) + text.render(silent)


def test_few_epochs_are_not_called_healthy() -> None:
    document = samples.healthy()
    document["epochs"]["ended"] = 3
    assert "only 3 epochs ended" in text_of(page.render(document))


def test_page_and_text_say_why_nothing_is_known_of_leaks() -> None:
    document = samples.healthy() | {"epochs": samples.healthy()["epochs"] | {"found_by": "none", "ended": 0}}
    for said in (text_of(page.render(document)), text.render(document)):
        assert "nothing is known about leaks yet: no epoch has ended" in said.lower()


def test_sites_are_said_once_for_now_and_once_for_the_peak() -> None:
    rendered = page.render(samples.healthy())
    assert "Now, 2.73 GiB" in rendered
    assert "Near the peak, 8.91 GiB" in rendered


def test_cells_of_the_flame_graph_lie_within_the_ones_above() -> None:
    for make in (samples.leaking, samples.huge):
        graph = flame(conform(make()), "peak_bytes", 1500)
        assert graph is not None
        for cell in graph["cells"][1:]:
            left, right = cell["left"] + 0.002, cell["left"] + cell["width"] - 0.003
            above = (one for one in graph["cells"] if one["depth"] == cell["depth"] - 1)
            assert any(one["left"] <= left and right <= one["left"] + one["width"] for one in above), cell


def test_the_address_space_adds_up() -> None:
    space = address_spaces(conform(samples.healthy()))[0]
    assert space["allocated_bytes"] + space["awaiting_bytes"] + space["free_bytes"] == space["total_bytes"]
    cells = sum(int(width) for patch in space["patches"] for width in re.findall(r"h(\d+)v1", patch["path"]))
    assert cells == 400 * space["rows"]


def test_unusable_memory_is_said_where_it_is_a_hundredth() -> None:
    document = samples.healthy()
    segment = samples.leaking()["segments"][0]
    reserved = document["gpus"][0]["reserved_bytes"]
    for part, is_said in ((50, True), (200, False)):
        document["segments"] = [segment | {"unusable_bytes": reserved // part}]
        assert ("unusable: " in text.render(document)) == is_said
        assert "unusable but for small tensors" in text_of(page.render(document))
