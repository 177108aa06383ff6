"""The page of a verdict says what the text says, and draws it. What holds for all pages: reports/test_every_page.py."""

from __future__ import annotations

import dataclasses
import html
import re

import pytest
import verdict_samples as samples
from frugal_alloc._command.fit import page, wording
from frugal_alloc._command.fit.verdict import COMPONENTS, CodeLine, HeldByLine, Sample, Verdict
from frugal_alloc._common.messages import format_bytes
from frugal_alloc._report.pages import geometry

GIB = samples.GIB


def text_of(verdict: Verdict, *others: Verdict) -> str:
    body = page.render([verdict, *others]).partition("<body>")[2]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


@pytest.mark.parametrize("name", samples.ALL)
def test_the_verdict_comes_first_in_the_words_of_the_text(name: str) -> None:
    verdict, *others = samples.ALL[name]
    rendered = page.render([verdict, *others])
    headline = html.escape(wording.headline(verdict)).replace("&#x27;", "&#39;")
    assert f"<title>{headline}</title>" in rendered
    assert f"<h1>{headline}</h1>" in rendered
    said = text_of(verdict, *others)
    for fact_name, fact in wording.facts(verdict):
        assert f"{fact_name} {fact}" in said


def test_every_figure_of_the_table_is_on_the_page() -> None:
    said = text_of(samples.ranks())
    for rank in samples.ranks().ranks:
        for component in COMPONENTS:
            sizes = [moment.components.get(component, 0) for moment in rank.phases]
            if any(sizes):
                assert " ".join([component, *(format_bytes(size) if size else "-" for size in sizes)]) in said
        assert " ".join(["all", *(format_bytes(moment.used_bytes) for moment in rank.phases)]) in said
    assert "rank 2 16.89 GiB at step 3, in backward, train.py:41 ranks 0, 1 and 3 15.36 GiB" in said


def test_the_peaks_lines_are_there_with_bytes_and_blocks() -> None:
    said = text_of(samples.fitting())
    assert "models/unet.py:57 forward activations 3.00 GiB 36" in said
    assert "no line of the program's own workspaces 64.00 MiB 1" in said
    many = tuple(HeldByLine(CodeLine("a.py", n, "f"), "temporaries", 100 << 20, 1) for n in range(1, 81))
    rank = dataclasses.replace(samples.rank(), lines=many)
    assert "20 smaller lines with 1.95 GiB in the JSON form." in text_of(samples.fitting(ranks=(rank,)))


def test_what_to_change_and_what_it_rests_on_are_said() -> None:
    said = text_of(samples.refused())
    for part in (
        "CUDA out of memory. Tried to allocate 2.00 GiB.",
        "checkpoint the layers whose results are kept for backward estimated: 9.00 GiB less",
        "step each parameter as its gradient is there 1.00 GiB less",
        "with 32 at once each takes 430.00 MiB, and 24 would fit",
        "Guessed the number of boxes of models/head.py:12 was made up",
        "Not modelled cusolverDnSgesvd was called",
        "Needs 31.00 GiB",
    ):
        assert part in said, part
    assert "Guessed Nothing. Not modelled Nothing." in text_of(samples.fitting())
    assert "Guessed" not in text_of(samples.failed())
    assert "Not seen what comes later: --steps 0 runs it to its end" in text_of(samples.growing())


def test_allocators_and_runs_of_a_search_have_a_table() -> None:
    said = text_of(*samples.allocators())
    assert "PyTorch's native allocator yes 15.36 GiB 130.00 MiB -" in said
    assert "frugal_alloc no 35.32 GiB 299.00 MiB 25.00 GiB" in said
    assert "8 yes 9.00 GiB 256 no ran out 48 yes 23.00 GiB" in text_of(samples.searched())
    in_vain = text_of(samples.searched_in_vain("failed", 3))
    assert "8 yes 9.00 GiB 256 no ran out 64 not known failed by itself (status 3)" in in_vain


def height_at(path: str, x: float) -> float:
    """Of an area of `M`, `H` and `V`, by the horizontal edges that lie over a place."""
    at_x = at_y = 0.0
    over = []
    for letter, first, second in re.findall(r"([MHV])([\d.e+-]+)(?: ([\d.e+-]+))?", path):
        if letter == "H":
            if min(at_x, float(first)) <= x <= max(at_x, float(first)):
                over.append(at_y)
            at_x = float(first)
        elif letter == "V":
            at_y = float(first)
        else:
            at_x, at_y = float(first), float(second)
    assert len(over) == 2, path
    return max(over) - min(over)


def test_the_layers_add_up_to_what_was_in_use() -> None:
    rank = samples.rank()
    picture = page.memory_picture(rank, 24 * GIB)
    assert picture is not None and picture.limit_y is not None
    # 24 GiB above the lower edge.
    scale = (geometry.HEIGHT - picture.limit_y) / (24 * GIB)
    for number, sample in enumerate(rank.series):
        middle = geometry.WIDTH * (number + 0.5) / len(rank.series)
        for layer in picture.layers:
            expected = sample.components.get(layer.component, 0) * scale
            if expected:
                assert height_at(layer.path, middle) == pytest.approx(expected, abs=0.15), (number, layer.component)
    assert picture.layers[0].component == "context"


def test_bands_are_the_phases_of_each_step() -> None:
    picture = page.memory_picture(samples.rank(), 24 * GIB)
    assert picture is not None
    assert [(band.step, band.phase) for band in picture.bands] == [
        (step, phase) for step in (1, 2, 3) for phase in ("forward", "backward", "optimizer step")
    ]
    assert sum(band.width for band in picture.bands) == pytest.approx(100)
    assert [tick.label for tick in picture.step_ticks] == ["1", "2", "3"]


def test_a_limit_that_is_far_away_is_told_in_words() -> None:
    gpu = dataclasses.replace(samples.fitting().gpu, memory_bytes=141 * GIB)
    said = text_of(samples.fitting(gpu=gpu))
    assert "the GPU's 141.00 GiB lie far above" in said
    assert "The GPU's 141.00 GiB lie far to the right." in said


def test_a_bar_is_as_long_as_its_bytes() -> None:
    rank = samples.rank()
    bars = re.findall(r'<div class="bar".*?</div>', page.render([samples.fitting(ranks=(rank,))]), re.S)
    for bar, moment in zip(bars, rank.phases, strict=True):
        pieces = re.findall(r'style="width:([\d.]+)%" title="([a-z ]+): ', bar)
        assert {component: float(width) for width, component in pieces} == {
            component: pytest.approx(100 * size / (24 * GIB), abs=0.001)
            for component, size in moment.components.items()
        }
        assert 'style="left:100.0%"' in bar


def test_a_long_run_and_many_ranks_make_a_small_page() -> None:
    one = samples.rank().series
    series = tuple(dataclasses.replace(one[n % len(one)], step=n) for n in range(5_000))
    ranks = tuple(dataclasses.replace(samples.rank(n, 1 - n / 1000), series=series) for n in range(64))
    rendered = page.render([samples.fitting(gpus=64, ranks=ranks)])
    assert len(rendered.encode()) < 2_000_000
    picture = page.memory_picture(ranks[0], 24 * GIB)
    assert picture is not None
    # What stands for several samples is the highest of them.
    assert max(band.most_bytes for band in picture.bands) == max(sample.used_bytes for sample in one)


def test_little_of_a_run_is_drawn_without_a_picture_over_time() -> None:
    for series in ((), (Sample("forward", 1, GIB, {"unnamed": GIB}),)):
        rank = dataclasses.replace(samples.rank(), series=series)
        assert "Memory over time" not in text_of(samples.fitting(ranks=(rank,)))
