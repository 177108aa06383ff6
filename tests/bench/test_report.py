"""bench/report.py: the page holds the figures, refers to nothing outside, and bad input leaves nothing behind."""

import copy
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import figures
import pytest

from bench import replay_bench, report
from bench.reporting import charts, page
from bench.reporting.replays import Bar, Input, Value
from bench.training import results

HOSTILE = '<script>alert("&")</script>'
HISTORY = Input("gpt60", "recorded", "", 20, 10, 1, 4 << 30)


@pytest.fixture
def make(tmp_path, capsys):
    """Makes a page of these figures: its status, what it said on stderr, and the page."""

    def carry_out(replays: object, *arguments: str | Path) -> tuple[int, str, str | None]:
        source, out = tmp_path / "replay.json", tmp_path / "page.html"
        source.write_text(replays if isinstance(replays, str) else json.dumps(replays))
        status = report.main([str(source), "--out", str(out), *map(str, arguments)])
        return status, capsys.readouterr().err, out.read_text() if out.exists() else None

    return carry_out


class Elements(HTMLParser):
    """Sees to it that every element that is opened is closed, in the order that nests them."""

    VOID = frozenset({"meta", "br", "wbr"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [text for name, text in attributes if name == "id"]
        self.references += [text for name, text in attributes if name in ("href", "src", "action", "srcset")]

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_holds_the_figures(make):
    status, _, html = make(figures.replays())
    assert status == 0
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
    for shown in (
        "99.8 %",  # 4 GiB of 4 GiB + 8 MiB
        "80.0 %",  # of native
        "1.0020",  # the smallest GPU
        "19.96",  # 80 ms over 4.008 GiB
        "1.500",  # 3 ms for 2,000 allocations
        "≥ 0.995",
        "✓ reached",
        "c0ffee1234",
        "2026-01-31 23:59 UTC",
        "Abacus 9, 2 cores",
        "Measured on the simulated GPU.",
        "4.00 GiB live, 2.00 MiB awaiting streams, 512.00 MiB free in 1 piece, the largest 512.00 MiB",
    ):
        assert shown in text, shown


def test_the_page_reads_what_the_replay_benchmark_writes(make, tmp_path):
    file = tmp_path / "measured.json"
    assert replay_bench.main(["--quick", "--only", "mosaic", "--capacity", "1.2x", "--json", str(file)]) == 0
    status, errors, html = make(file.read_text())
    assert (status, errors) == (0, "")
    measured = json.loads(file.read_text())["measurements"][0]
    assert f"{100 * measured['utilisation']:.1f}\u202f%" in html
    for heading in ("bars", "utilisation", "first", "memory", "space", "tight"):
        assert f'<h2 id="{heading}">' in html


def test_bars_of_utilisation_are_parts_of_all_memory(make):
    html = make(figures.replays())[2]
    utilisation = html.partition('<h2 id="utilisation">')[2].partition("</section>")[0]
    assert re.findall(r"width:([\d.]+)%", utilisation) == ["99.8", "80.0"]


def test_figures_without_ours_make_a_page_without_verdicts(make):
    replays = figures.replays()
    replays["allocators"].remove("frugal")
    for key in ("measurements", "constrained"):
        replays[key] = [one for one in replays[key] if one["allocator"] != "frugal"]
    replays["bars"][0]["values"] = [one for one in replays["bars"][0]["values"] if one["allocator"] != "frugal"]
    html = make(replays)[2]
    Elements(html)
    assert "not measured" in html and '<dl class="tiles">' not in html


def test_the_page_is_well_formed_and_its_links_lead_somewhere(make):
    elements = Elements(make(figures.replays())[2])
    assert len(elements.ids) == len(set(elements.ids))
    assert elements.references
    assert {reference.removeprefix("#") for reference in elements.references} <= set(elements.ids)


def test_the_page_refers_to_nothing_outside(make, tmp_path):
    (tmp_path / "micro.json").write_text(json.dumps(figures.micro()))
    html = make(figures.replays(), "--micro", tmp_path / "micro.json")[2]
    assert not re.search(r"https?:|@import|<link|<script|<img|<iframe", html)
    assert set(re.findall(r"url\([^)]*\)", html)) <= {"url(#hole)"}


def test_whatever_the_figures_name_is_text(make):
    replays = figures.replays(HOSTILE)
    replays["environment"] |= {"commit": HOSTILE, "time": HOSTILE, "processor": HOSTILE, "caveats": [HOSTILE]}
    replays["allocators"].append(HOSTILE)
    replays["measurements"].append(figures.play(HOSTILE, HOSTILE, 5 << 30))
    replays["inputs"][0]["summary"] = HOSTILE
    replays["bars"][0] |= {"what": HOSTILE, "unit": HOSTILE}
    status, _, html = make(replays)
    assert status == 0
    assert "<script" not in html and "&lt;d" not in html and "&lt;script&gt;alert(&#34;&amp;&#34;)" in html
    Elements(html)


@pytest.mark.parametrize("name", ["", "x" * 500, 'a"b', "a'b"])
def test_any_name_of_a_history_makes_a_page(make, name):
    Elements(make(figures.replays(name))[2])


def without(*path):
    """The figures, less what is at this path."""
    replays = figures.replays()
    inner = replays
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return replays


def with_other(value, *path):
    """The figures, with another value at this path."""
    replays = copy.deepcopy(figures.replays())
    inner = replays
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return replays


@pytest.mark.parametrize(
    "replays",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": NaN, "measurements": []}',
        "[" * 100_000,
        '"\ud800"'.encode("utf-8", "surrogatepass").decode("latin-1"),
        {"format": 1},
        without("environment"),
        without("environment", "commit"),
        without("measurements", 0, "history"),
        without("bars", 0, "values", 0, "meets_bar"),
        with_other(2, "format"),
        with_other("1", "format"),
        with_other({}, "measurements"),
        with_other([7], "measurements"),
        with_other(-1, "measurements", 0, "peak_live_bytes"),
        with_other(True, "measurements", 0, "peak_live_bytes"),
        with_other(1e300, "measurements", 0, "peak_live_bytes"),
        with_other("all", "measurements", 0, "utilisation"),
        with_other([[0, 1]], "measurements", 0, "series"),
        with_other([[0, 1, "gone"]], "measurements", 0, "runs"),
        with_other([1], "allocators"),
        with_other("drawn", "inputs", 0, "kind"),
    ],
)
def test_bad_figures_are_refused_in_one_line_and_the_old_page_stays(make, tmp_path, replays):
    (tmp_path / "page.html").write_text("the old page")
    status, errors, html = make(replays)
    assert status == 2
    assert errors.startswith("report: ") and errors.count("\n") == 1
    assert html == "the old page"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "replay.json"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--train", "missing.json"],
        ["--train", "/"],
        ["--micro", "missing.json"],
        ["--out", "/"],
        ["--out", "/nowhere/page.html"],
        ["another.json"],
    ],
)
def test_bad_arguments_are_refused_in_one_line(make, arguments, capsys):
    try:
        status, errors, _ = make(figures.replays(), *arguments)
    except SystemExit as ended:
        status, errors = ended.code, capsys.readouterr().err
    assert status == 2
    assert errors.startswith("report: ") and errors.count("\n") == 1


def test_without_the_template_library_one_line_says_so():
    code = "import sys; sys.modules['jinja2'] = None; from bench import report; sys.exit(report.main(['replay.json']))"
    root = Path(report.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert done.returncode == 2
    assert done.stderr.startswith("report: jinja2 is not installed") and done.stderr.count("\n") == 1


def test_figures_of_another_benchmark_are_not_taken_for_trainings(make, tmp_path):
    (tmp_path / "micro.json").write_text(json.dumps(figures.micro()))
    status, errors, _ = make(figures.replays(), "--train", tmp_path / "micro.json")
    assert status == 2 and "train_bench" in errors


def test_single_calls_are_medians_by_case_and_subject(make, tmp_path):
    (tmp_path / "micro.json").write_text(json.dumps(figures.micro()))
    status, _, html = make(figures.replays(), "--micro", tmp_path / "micro.json")
    assert status == 0
    assert html.count("<small>0.25 of native</small>") == 2
    html = html.replace("<small>0.25 of native</small>", "")
    rows = re.findall(r'<tr><th scope="row">(\d+)</th>\s*((?:<td>[^<]*</td>\s*)+)</tr>', html)
    assert [(case, re.findall(r"<td>([^<]*)", cells)) for case, cells in rows] == [
        ("512", ["400", "100"]),  # by the CPU
        ("4096", ["\N{EN DASH}", "250"]),
        ("512", ["800", "200"]),  # by the clock
        ("4096", ["\N{EN DASH}", "500"]),
    ]
    assert "secret" not in html


def test_trainings_show_speed_and_their_bars(make, tmp_path):
    def run(allocator: str, speed: float | None) -> results.Run:
        outcome = "completed" if speed else "out_of_memory"
        sizes, unknown = (3 << 30, 4 << 30, 0, 0), (None,) * 4
        return results.Run("gpt2", allocator, "1.05", 5 << 30, 0, outcome, None, 9, speed, *sizes, *unknown)

    setup = results.Setup("abc", {}, {"torch": "2.11"}, "Abacus GPU", 24 << 30, False, 0, 3, 6, 1, False, [])
    (tmp_path / "train.json").write_text(
        json.dumps(results.as_json(setup, [run("native", None), run("expandable", 10.0), run("frugal", 12.5)]))
    )
    status, _, html = make(figures.replays(), "--train", tmp_path / "train.json")
    assert status == 0
    assert "12.5</td>" in html and "1.250" in html and "Abacus GPU, 24 GiB" in html
    assert "out of memory in step 10" in html and "native did not complete, ours did" in html
    Elements(html)


def a_bar(*values: Value, at_least: bool = False, bar: float | None = 1.0, stretch: float | None = 0.5) -> Bar:
    return Bar("driver time", "ms", at_least, bar, stretch, None, list(values))


def test_a_bar_is_reached_where_every_history_of_ours_reaches_it():
    near, far = Value("a", "frugal", 0.9, True, False), Value("b", "frugal", 1.5, False, False)
    theirs = Value("a", "native", 9.0, False, False)
    assert page.standing(a_bar(near, theirs)).state == "reached"
    assert page.standing(a_bar(near, far)).state == "short"
    assert page.standing(a_bar(near, far)).short_of == [far]
    assert page.standing(a_bar(Value("a", "frugal", 0.4, True, True), theirs)).state == "stretch"
    assert page.standing(a_bar(theirs)).state == "unmeasured"


def test_a_stretch_without_a_bar_is_no_failure():
    short, beyond = Value("b", "frugal", 1.5, False, False), Value("a", "frugal", 0.4, False, True)
    assert page.standing(a_bar(short, bar=None, stretch=None)).state == "information"
    assert page.standing(a_bar(beyond, short, bar=None)).state == "short_of_stretch"
    assert page.standing(a_bar(beyond, bar=None)).state == "stretch"


def test_the_worst_history_is_told():
    values = [Value(name, "frugal", figure, True, True) for name, figure in (("a", 0.2), ("b", 0.9), ("c", 0.5))]
    assert page.standing(a_bar(*values)).worst.history == "b"
    assert page.standing(a_bar(*values, at_least=True)).worst.history == "a"
    failed = Value("d", "frugal", None, False, False)
    assert page.standing(a_bar(*values, failed)).worst == failed


def test_one_that_falls_short_is_worse_than_one_that_is_excused():
    excused, short = Value("a", "frugal", 3.0, True, False), Value("b", "frugal", 2.0, False, False)
    assert page.standing(a_bar(excused, short)).worst == short


def test_strips_of_a_history_have_one_scale():
    chart = charts.strip_chart(
        HISTORY, {"frugal": [(0, 400, "live")], "native": [(0, 400, "live"), (900, 400, "free")]}
    )
    ours, native = chart.strips
    assert (ours.width, native.width) == (charts.STRIP_WIDTH / 2, charts.STRIP_WIDTH)
    assert native.free_pieces == 1 and native.largest_free_bytes == 400
    middle, bottom = charts.STRIP_WIDTH // 2, charts.STRIP_HEIGHT
    assert ours.paths == {"live": f"M0 0H{middle}V{bottom}H{charts.STRIP_WIDTH}V{bottom}H0Z"}


def test_holes_take_no_more_of_a_strip_than_memory_does():
    chart = charts.strip_chart(HISTORY, {"frugal": [(0, 100, "live"), (100, 9900, "hole"), (10_000, 100, "free")]})
    [strip] = chart.strips
    assert strip.shortened and strip.bytes_by_state["hole"] == 9900
    # Of 400 bytes drawn, live comes first and free last.
    quarter, last = charts.STRIP_WIDTH // 4, 3 * charts.STRIP_WIDTH // 4
    assert f"H{quarter}V{charts.STRIP_HEIGHT}" in strip.paths["live"]
    assert f"H{last}V0" in strip.paths["free"]


def test_nothing_is_drawn_of_nothing():
    assert charts.strip_chart(HISTORY, {"frugal": []}) is None
    assert charts.memory_chart(HISTORY, {"frugal": []}) is None
    assert charts.strip_chart(HISTORY, {"frugal": [(0, 0, "free")]}) is None


def test_thinning_keeps_the_peak():
    samples = [(event, 5 if event == 777 else 1, 9 if event == 777 else 2) for event in range(1000)]
    history = Input("a", "recorded", "", 1000, 10, 1, 5)
    chart = charts.memory_chart(history, {"frugal": samples})
    assert chart.live_peak_bytes == 5 and chart.lines[0].peak_bytes == 9
    few = charts.memory_chart(history, {"frugal": [samples[0], samples[777], samples[778]]})
    assert highest_point(chart) == highest_point(few)


def highest_point(chart: charts.MemoryChart) -> float:
    return min(float(y) for y in re.findall(r"V([\d.]+)", chart.lines[0].path))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "\N{EN DASH}"),
        (0, "0"),
        (0.05219, "0.0522"),
        (1.5, "1.5"),
        (14.533, "14.53"),
        (2221.3, "2,221"),
        (7.0, "7"),
    ],
)
def test_figures_have_as_many_digits_as_tell_something(value, shown):
    assert page.format_figure(value) == shown
