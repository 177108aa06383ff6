"""A verdict, as text and as a page: in the same words, with every figure, and what each form has for itself.

What holds for all pages: reports/test_every_page.py.
"""

from __future__ import annotations

import dataclasses
import html
import io
import re
from collections.abc import Callable, Sequence

import pytest
import verdict_samples as samples
from frugal_alloc._common.messages import format_bytes
from frugal_alloc._planning.fit import page, text, wording
from frugal_alloc._planning.fit.verdict import COMPONENTS, WASTE, CodeLine, Gpu, HeldByLine, Moment, Sample, Verdict
from frugal_alloc._report.pages import geometry
from simulated_gpu import gpu_models

GIB = samples.GIB


def of_little_memory() -> Verdict:
    moment = Moment("forward", 1, None, 300 << 20, {"unnamed": 300 << 20})
    return samples.fitting(ranks=(dataclasses.replace(samples.rank(), peak=moment, phases=(moment,), series=()),))


def with_caches() -> Verdict:
    """That an allocator has taken since."""
    rank = samples.rank()
    last = dataclasses.replace(rank.series[-1], used_bytes=rank.peak.used_bytes + 2 * GIB)
    return samples.fitting(ranks=(dataclasses.replace(rank, series=(*rank.series, last)),))


NOTHING = samples.fitting(fits=None, ended="itself", ranks=())
FITTING_L4, SMALL_L4 = samples.Tried("L4", True, 15 * GIB), samples.Tried("L4", False, 35 * GIB)
AT = "at step 3, in backward, train.py:41"
WITH = "with PyTorch's native allocator"
FIRST_LINES = [
    (samples.fitting(), f"fits: 15.36 of 24.00 GiB in 3 steps {WITH}, {AT}"),
    (
        samples.refused(),
        f"does not fit: needs 31.00 GiB {WITH}, and NVIDIA GeForce RTX 4090 has 24.00 GiB; most is needed {AT}",
    ),
    (
        samples.refused(needs_bytes=None),
        f"does not fit: takes 35.32 GiB {WITH}, and NVIDIA GeForce RTX 4090 has 24.00 GiB; most is needed {AT}",
    ),
    (
        samples.refused(needs_bytes=None, ranks=(samples.rank(),)),
        f"does not fit: memory runs out at 15.36 of 24.00 GiB {WITH}, {AT}",
    ),
    (
        samples.refused(gpu=dataclasses.replace(samples.refused().gpu, name="a GPU")),
        f"does not fit: needs 31.00 GiB {WITH}, and the GPU has 24.00 GiB; most is needed {AT}",
    ),
    (samples.ranks(), f"fits: 16.89 of 24.00 GiB in 3 steps {WITH}, {AT}, on rank 2"),
    (of_little_memory(), f"fits: 300.00 MiB of 24.00 GiB in 3 steps {WITH}, at step 1, in forward"),
    (
        samples.growing(),
        f"fits now, but grows 120.00 MiB a step: full in step 78; seen in 8 steps {WITH}; train.py:41 asks for most of "
        "it",
    ),
    (
        samples.refused(ranks=samples.growing().ranks),
        f"does not fit: needs 31.00 GiB {WITH}, and NVIDIA GeForce RTX 4090 has 24.00 GiB; most is needed {AT}; it "
        "grows 120.00 MiB a step",
    ),
    (
        samples.differing(),
        f"fits: 15.36 of 24.00 GiB in 3 steps {WITH}, {AT}; batches differ, the longest so far in step 3",
    ),
    (
        samples.called(),
        f"fits: 15.36 of 24.00 GiB to its end, in 7 calls of its model {WITH}, at call 3, in backward, train.py:41",
    ),
    (
        with_caches(),
        f"fits: 15.36 of 24.00 GiB in 3 steps {WITH}, {AT}; 17.36 GiB with caches",
    ),
    (samples.failed(), "no verdict: the program failed by itself, with exit status 3"),
    (
        samples.fitting(fits=None, ended="interrupted", exit_status=130),
        "no verdict: the program was interrupted",
    ),
    (NOTHING, "no verdict: the program ended and asked for no memory of a GPU"),
    (samples.searched(), f"fits up to --batch-size 48: 15.36 of 24.00 GiB in 3 steps {WITH}, {AT}"),
    (
        samples.searched(found_is_last=True),
        "fits up to --batch-size 48, the largest of the range (a larger one may fit): 15.36 of 24.00 GiB in 3 steps "
        f"{WITH}, {AT}",
    ),
    (
        samples.refused(searched="--batch-size", tried=(samples.Tried("8", False, 35 * GIB),)),
        f"does not fit, even with --batch-size 8: needs 31.00 GiB {WITH}, and NVIDIA GeForce RTX 4090 has 24.00 GiB; "
        f"most is needed {AT}",
    ),
    (
        samples.fitting(searched="GPU", tried=(FITTING_L4,), found="L4"),
        f"fits L4, the smallest GPU that will do: 15.36 of 24.00 GiB in 3 steps {WITH}, {AT}",
    ),
    (
        samples.refused(searched="GPU", tried=(SMALL_L4,)),
        f"does not fit any GPU that is known: needs 31.00 GiB {WITH}, and NVIDIA GeForce RTX 4090 has 24.00 GiB; "
        f"most is needed {AT}",
    ),
    (
        samples.searched_in_vain("failed", 3),
        "no verdict: the program failed by itself at --batch-size 64, with exit status 3; known so far: 8 fits, 256 "
        "does not fit",
    ),
    (
        samples.searched_in_vain("failed", 1, known=()),
        "no verdict: the program failed by itself at --batch-size 64, with exit status 1",
    ),
    (
        samples.searched_in_vain("itself", 0, searched="GPU", known=(SMALL_L4,)),
        "no verdict: the program ended and asked for no memory of a GPU on 64; known so far: L4 does not fit",
    ),
]


@pytest.mark.parametrize(("verdict", "line"), FIRST_LINES, ids=[line for _, line in FIRST_LINES])
def test_the_verdict_comes_first(verdict: Verdict, line: str) -> None:
    assert text.render([verdict]).splitlines()[0] == line
    rendered = html.unescape(page.render([verdict]))
    assert f"<title>{line}</title>" in rendered and f"<h1>{line}</h1>" in rendered


def plain(shown: str) -> str:
    """Words without what sets them apart: elements, or colons and brackets."""
    return " ".join(re.sub(r"[:().]", "", html.unescape(re.sub(r"<[^>]+>", " ", shown))).lower().split())


def of_text(verdicts: Sequence[Verdict]) -> str:
    return plain(text.render(verdicts))


def of_page(verdicts: Sequence[Verdict]) -> str:
    return plain(page.render(verdicts).partition("<body>")[2])


Form = Callable[[Sequence[Verdict]], str]
FORMS = pytest.mark.parametrize("form", [of_text, of_page])
SAID: list[tuple[list[Verdict], list[str]]] = [
    (
        [samples.refused()],
        [
            "CUDA out of memory. Tried to allocate 2.00 GiB.",
            "checkpoint the layers whose results are kept for backward (estimated: 9.00 GiB less)",
            "step each parameter as its gradient is there (1.00 GiB less)",
            "fewer at a time: with 32 at once each takes 430.00 MiB, and 24 would fit",
            "Guessed: the number of boxes of models/head.py:12 was made up",
            "Not modelled: cusolverDnSgesvd was called",
            "needs 31.00 GiB",
            "Program: python train.py --batch-size 32",
            "24.00 GiB, of which its context takes 512.00 MiB",
            "GPU's memory: 24.00 GiB is what CUDA calls the total memory of such a GPU, published at "
            "https://example.org/log GPU's context: 512.00 MiB is estimated: 4 MiB for each",
            "Allocator: PyTorch's native allocator",
            "memory ran out after 0 steps; 8.2 s",
            "at most 33.88 GiB asked for at a time, and 34.17 GiB reserved",
        ],
    ),
    ([samples.fitting()], ["Guessed: nothing Not modelled: nothing"]),
    ([samples.growing()], ["Not seen: what comes later: --steps 0 runs it to its end"]),
    (
        samples.allocators(),
        [
            "PyTorch's native allocator yes 15.36 GiB 130.00 MiB -",
            "PyTorch's expandable segments yes 16.13 GiB 136.50 MiB -",
            "frugal_alloc no 35.32 GiB 299.00 MiB 25.00 GiB",
        ],
    ),
]


@FORMS
@pytest.mark.parametrize(("verdicts", "parts"), SAID, ids=["refused", "fitting", "growing", "allocators"])
def test_what_to_change_and_what_it_rests_on_are_said(form: Form, verdicts: list[Verdict], parts: list[str]) -> None:
    told = form(verdicts)
    for part in (*parts, *(f"{name} {fact}" for name, fact in wording.facts(verdicts[0]))):
        assert plain(part) in told, part


@FORMS
def test_without_a_verdict_nothing_is_said_of_what_it_rests_on(form: Form) -> None:
    assert "guessed" not in form([samples.failed()])


def test_a_status_that_might_be_taken_for_does_not_fit_is_explained() -> None:
    assert wording.status_note(samples.fitting()) == wording.status_note(samples.refused()) == ""
    own = "Exit status 3 is the program's own: it does not say that the program does not fit."
    assert wording.status_note(samples.failed()) == (
        f"no verdict: the program failed by itself, with exit status 3. {own}"
    )
    assert wording.status_note(samples.searched_in_vain("failed", 3)).endswith(
        f"{own} To see the program's error, run it with --batch-size 64."
    )
    assert wording.status_note(NOTHING) == (
        "no verdict: the program ended and asked for no memory of a GPU. Exit status 1 stands for no verdict, too: it "
        "does not say that the program does not fit."
    )


@pytest.mark.parametrize("model", gpu_models.models(), ids=lambda model: model.name)
def test_each_figure_of_a_gpu_of_the_table_is_said_to_be_from_somewhere(model: gpu_models.GpuModel) -> None:
    sources = model.sources["memory_bytes"], model.sources["context_bytes"]
    gpu = Gpu(model.name, model.memory_bytes, model.context_bytes, *sources)
    facts = dict(wording.facts(samples.fitting(gpu=gpu)))
    for name, size in (("GPU's memory", model.memory_bytes), ("GPU's context", model.context_bytes)):
        origin = (
            r"(what CUDA calls the total memory of such a GPU, (published at https://|in a public log with the line )"
        )
        assert re.match(rf"{re.escape(format_bytes(size))} is {origin}|derived from |estimated: )", facts[name]), facts


@pytest.mark.parametrize(
    ("ended", "status", "outcome"),
    [
        ("failed", 3, "failed by itself (status 3)"),
        ("interrupted", 130, "interrupted"),
        ("itself", 0, "asked for no memory of a GPU"),
    ],
)
def test_a_value_that_says_nothing_is_not_said_not_to_fit(ended: str, status: int, outcome: str) -> None:
    verdict = samples.searched_in_vain(ended, status)
    lines = text.render([verdict]).splitlines()
    start = lines.index("Tried, of --batch-size")
    assert lines[start + 1 : start + 4] == ["  8: fits, 9.00 GiB", "  256: does not fit", f"  64: {outcome}"]
    assert plain(f"8 yes 9.00 GiB 256 no ran out 64 not known {outcome}") in of_page([verdict])


@pytest.mark.parametrize("verdict", [samples.fitting(), samples.refused()], ids=["fitting", "refused"])
def test_the_table_has_each_component_of_each_phase_and_adds_up(verdict: Verdict) -> None:
    lines = text.render([verdict]).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("In use when each phase needed most, in GiB"))
    columns = re.split(r"\s{2,}", lines[start + 1].strip())
    assert columns == ["forward", "backward *", "optimizer step", "evaluation", "elsewhere"]
    table = {}
    end = next(n for n, line in enumerate(lines) if line.startswith("  * the peak; needed: the rows above; waste: "))
    for line in lines[start + 2 : end]:
        name, *cells = re.split(r"\s{2,}", line.strip())
        table[name] = cells
    (rank,) = verdict.ranks
    for column, moment in enumerate(rank.phases):
        for component in COMPONENTS:
            size = moment.components.get(component, 0)
            shown = table[component][column] if component in table else "-"
            assert shown == ("-" if not size else f"{size / GIB:.2f}" if size * 200 >= GIB else "< 0.01"), component
        waste = moment.components[WASTE]
        assert table["needed"][column] == f"{(moment.used_bytes - waste) / GIB:.2f}"
        assert table["all"][column] == f"{moment.used_bytes / GIB:.2f}"
        assert table["at step"][column] == str(moment.step)


def test_waste_stands_below_the_sum_of_what_is_needed() -> None:
    """A cache that is full once makes all columns alike."""
    lines = text.render([samples.fitting()]).splitlines()
    names = [line.strip().split("  ")[0] for line in lines[: lines.index("At the peak, most is held by") - 2]]
    assert names[-5:] == ["context", "needed", "waste", "all", "at step"]


@pytest.mark.parametrize("verdicts", [[samples.fitting()], [samples.ranks()], samples.allocators()])
def test_tables_fit_80_columns(verdicts: list[Verdict]) -> None:
    lines = text.render(verdicts).splitlines()
    tables = [line for line in lines if re.search(r"\S  +\S.*\S  +\S", line) or "waste: " in line]
    assert len(tables) > 10
    assert [line for line in tables if len(line) > 80] == []


def test_a_component_that_we_do_not_know_has_its_row() -> None:
    moment = Moment("forward", 1, None, 3 * GIB, {"parameters": GIB, "something new": 2 * GIB})
    rank = dataclasses.replace(samples.rank(), peak=moment, phases=(moment,))
    assert re.search(r"^  something new +2\.00$", text.render([samples.fitting(ranks=(rank,))]), re.M)


def test_ranks_that_took_the_same_share_a_table() -> None:
    lines = text.render([samples.ranks()]).splitlines()
    assert [line for line in lines if line.startswith("In use when")] == [
        "In use when each phase needed most, in GiB (rank 2)",
        "In use when each phase needed most, in GiB (ranks 0, 1 and 3)",
    ]
    alike = samples.fitting(gpus=8, ranks=tuple(samples.rank(number) for number in range(8)))
    assert plain("in GiB (ranks 0 to 7)") in of_text([alike])


def test_no_rank_is_left_out_however_many_differ() -> None:
    many = samples.fitting(gpus=9, ranks=tuple(samples.rank(number, 1 - number / 100) for number in range(9)))
    for number in range(9):
        assert re.search(rf"\brank {number}\b", of_text([many])), number


def test_the_peaks_lines_add_up_to_what_the_program_holds() -> None:
    (rank,) = samples.fitting().ranks
    for line in rank.lines:
        where = wording.place(line.where, function=True)
        told = f"{format_bytes(line.bytes)} {line.component} {where} ({line.blocks} block"
        assert plain(told) in of_text([samples.fitting()])
    many = tuple(HeldByLine(CodeLine("a.py", n, "f"), "temporaries", 100 << 20, 1) for n in range(1, 31))
    longer = samples.fitting(ranks=(dataclasses.replace(rank, lines=many),))
    assert plain("1.95 GiB 20 more lines") in of_text([longer])


def test_of_a_long_error_the_first_line_is_told() -> None:
    verdict = samples.refused(error="CUDA out of memory. Tried to allocate 2.00 GiB.\nHeld  by others")
    assert plain("train.py:41 CUDA out of memory. Tried to allocate 2.00 GiB. In use when") in of_text([verdict])


def test_the_star_is_at_the_peak_where_several_phases_take_as_much() -> None:
    rank = samples.rank()
    forward = dataclasses.replace(rank.phases[0], used_bytes=rank.peak.used_bytes)
    rank = dataclasses.replace(rank, phases=(forward, *rank.phases[1:]))
    assert plain("forward backward * optimizer step") in of_text([samples.fitting(ranks=(rank,))])


@pytest.mark.parametrize("name", samples.ALL)
def test_lines_fit_a_terminal_but_for_the_verdict_itself(name: str) -> None:
    assert all(len(line) <= 100 for line in text.render(samples.ALL[name]).splitlines()[1:])


def test_nothing_of_the_program_steers_the_terminal() -> None:
    hostile = "\x1b[2J\u202e\nfits: all is well\r\ud800"
    rank = samples.rank()
    where = CodeLine(f"{hostile}.py", 1, hostile)
    rank = dataclasses.replace(rank, peak=dataclasses.replace(rank.peak, where=where))
    verdict = samples.refused(ranks=(rank,), error=hostile, guesses=(hostile,), command=("python", hostile))
    told = text.render([verdict])
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", told)
    assert not any(line.startswith("fits") for line in told.splitlines())


def test_colours_are_for_terminals() -> None:
    out = io.StringIO()
    text.write([samples.fitting()], out)
    assert out.getvalue() == text.render([samples.fitting()])
    assert "\x1b[" not in out.getvalue()
    assert text.render([samples.fitting()], colour=True).startswith("\x1b[1;32mfits: ")
    assert text.render([samples.growing()], colour=True).startswith("\x1b[1;31mfits now, but grows")


def test_every_figure_of_the_table_is_on_the_page() -> None:
    shown = of_page([samples.ranks()])
    for rank in samples.ranks().ranks:
        for component in COMPONENTS:
            sizes = [moment.components.get(component, 0) for moment in rank.phases]
            if any(sizes):
                assert plain(" ".join([component, *(format_bytes(size) if size else "-" for size in sizes)])) in shown
        assert plain(" ".join(["all", *(format_bytes(moment.used_bytes) for moment in rank.phases)])) in shown
    assert plain("rank 2 16.89 GiB at step 3, in backward, train.py:41 ranks 0, 1 and 3 15.36 GiB") in shown


def test_the_peaks_lines_are_there_with_bytes_and_blocks() -> None:
    shown = of_page([samples.fitting()])
    assert plain("models/unet.py:57 forward activations 3.00 GiB 36") in shown
    assert plain("no line of the program's own workspaces 64.00 MiB 1") in shown
    many = tuple(HeldByLine(CodeLine("a.py", n, "f"), "temporaries", 100 << 20, 1) for n in range(1, 81))
    rank = dataclasses.replace(samples.rank(), lines=many)
    assert plain("20 smaller lines with 1.95 GiB in the JSON form.") in of_page([samples.fitting(ranks=(rank,))])


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
    shown = of_page([samples.fitting(gpu=gpu)])
    assert plain("the GPU's 141.00 GiB lie far above") in shown
    assert plain("The GPU's 141.00 GiB lie far to the right.") in shown


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
        assert plain("Memory over time") not in of_page([samples.fitting(ranks=(rank,))])


def test_each_component_has_a_colour_of_its_own() -> None:
    drawn = page.render([samples.fitting()])
    for number in range(len(COMPONENTS)):
        assert f".k{number}, " in drawn and drawn.count(f"--k{number}: #") == 2
