"""What counts as more, what is only another order, and how it is said."""

from __future__ import annotations

import pytest
from checked_project import MIB, figures, line, run_of
from frugal_alloc._planning.check import comparison
from frugal_alloc._planning.check.baseline import Baseline, Figures, Setting
from frugal_alloc._planning.check.comparison import Allowance, Comparison, compare, grown_most
from frugal_alloc._planning.check.runs import Run

SETTING = Setting(memory=16 << 30, gpus=1, values="cpu", allocator="native")


NOTHING = Allowance()


def compared(before: dict[str, Figures], now: dict[str, Figures] | Run, allowance: Allowance = NOTHING) -> Comparison:
    run = run_of(now) if isinstance(now, dict) else now
    return compare(Baseline.of(SETTING, "2.11.0", before), run, allowance)


def text_of(before: Figures, now: Figures) -> str:
    return comparison.to_text(compared({"test_train": before}, {"test_train": now}), []).splitlines()[0].strip()


def test_a_higher_peak_is_told_with_the_line_that_grew_most() -> None:
    before = figures(1200 * MIB, lines=(line("model.py", 80, 700 * MIB), line("model.py", 60, 500 * MIB)))
    moved = line("model.py", 88, 1400 * MIB, "text of model.py:80")
    now = figures(1900 * MIB, lines=(moved, line("model.py", 60, 500 * MIB)))
    assert text_of(before, now) == "test_train: peak 1.17 -> 1.86 GiB, +0.68 at model.py:88"


def test_what_a_unit_would_hide_is_told_in_bytes() -> None:
    before, now = figures(5 * MIB), figures(5 * MIB + 8, lines=(line("a.py", 3, 8),))
    assert text_of(before, now) == "test_train: peak 5,242,880 -> 5,242,888 bytes, +8 bytes at a.py:3"


@pytest.mark.parametrize("before, noise", [(40, 512), (5 * MIB, 5242), (0, 512)])
def test_what_is_less_than_a_thousandth_and_than_a_block_is_noise(before: int, noise: int) -> None:
    for name in ("peak", "leaked"):
        first, less, more = (
            figures(**{"peak": MIB, name: before + size, "leaks": (line("a.py", 3, before + size),)})
            for size in (0, noise, noise + 1)
        )
        assert not compared({"a": first}, {"a": less}, comparison.NOISE).regressions
        assert compared({"a": first}, {"a": more}, comparison.NOISE).regressions


def test_who_has_no_figure_in_common_with_the_baseline_was_not_compared() -> None:
    unknown = Figures()
    assert compared({"a": unknown, "b": unknown}, {"a": figures(9), "b": unknown}).compared == 0
    assert compared({"a": Figures(leaked=0)}, {"a": figures(9)}).compared == 1
    text = comparison.to_text(compared({"a": figures(1)}, {"b": figures(1)}), [])
    assert text.splitlines()[-1].startswith("frugal-alloc check: nothing was compared")


def test_the_same_and_less_are_no_regression() -> None:
    for now in (figures(10), figures(9)):
        assert compared({"a": figures(10)}, {"a": now}).regressions == ()
    assert compared({"a": figures(10)}, {"a": figures(9)}).less == (("a", 10, 9),)


@pytest.mark.parametrize(
    "allowance, most", [(Allowance(), 1000), (Allowance(bytes=50), 1050), (Allowance(share=0.1), 1100)]
)
def test_so_much_more_is_allowed(allowance: Allowance, most: int) -> None:
    assert not compared({"a": figures(1000)}, {"a": figures(most)}, allowance).regressions
    assert compared({"a": figures(1000)}, {"a": figures(most + 1)}, allowance).regressions


def test_a_cache_that_another_test_fills_is_no_regression() -> None:
    kept = (line("cache.py", 3, 4 * MIB),)
    filling = figures(14 * MIB, released=10 * MIB, leaked=4 * MIB, leaks=kept)
    plain = figures(10 * MIB)
    assert compared({"a": filling, "b": plain}, {"a": plain, "b": filling}).regressions == ()
    # Each worker of a run fills one; what one alone has more is the tests'.
    (change,) = compared({"a": filling, "b": plain}, {"a": filling, "b": filling}).regressions
    assert change.name == "b" and [growth.figure for growth in change.growths] == ["leaked"]


def test_a_cache_of_a_library_is_known_by_the_librarys_own_line() -> None:
    first = figures(10, leaked=4, leaks=(line("test_a.py", 9, 4, through="torch/nn/modules/rnn.py forward"),))
    second = figures(10, leaked=4, leaks=(line("test_b.py", 7, 4, through="torch/nn/modules/rnn.py forward"),))
    clean = figures(10)
    assert compared({"a": first, "b": clean}, {"a": clean, "b": second}).regressions == ()
    assert compared({"a": clean, "b": clean}, {"a": clean, "b": second}).regressions


def test_a_leak_that_is_mended_is_no_higher_peak() -> None:
    assert compared({"a": figures(100, released=80, leaked=20)}, {"a": figures(100)}).regressions == ()


def test_what_was_held_before_may_have_served() -> None:
    before = figures(10, gpu=2 * MIB, slack=1 * MIB)
    assert compared({"a": before}, {"a": figures(10, gpu=22 * MIB, calls={"malloc": 9})}).regressions == ()
    assert compared({"a": before}, {"a": figures(10, gpu=24 * MIB)}).regressions
    assert compared({"a": figures(10, gpu=2 * MIB)}, {"a": figures(10, gpu=4 * MIB)}).regressions


def test_new_and_missing_ones_are_told_and_do_not_fail() -> None:
    run = run_of({"new": figures(3, lines=(line("a.py", 1, 3),))})
    run = run._replace(passed=frozenset({"new", "idle"}), not_passed=frozenset({"failed"}))
    result = compared({name: figures(1) for name in ("gone", "idle", "failed")}, run)
    assert (result.missing, result.without_gpu_memory, result.not_passed) == (("gone",), ("idle",), ("failed",))
    assert not result.regressions
    text = comparison.to_text(result, [])
    assert "new: new, peak 3 bytes, 3 bytes of it at a.py:1" in text
    assert "gone: of the baseline, not run" in text
    assert "failed: not compared, since it did not pass" in text


def test_a_figure_that_is_not_known_is_not_compared() -> None:
    unknown = Figures(None, None)
    assert compared({"a": unknown}, {"a": figures(9)}).regressions == ()
    assert compared({"a": figures(1)}, {"a": unknown}).regressions == ()
    assert compared({"a": unknown}, {"a": figures(9)}).not_steady == ("a",)


def test_a_line_that_was_edited_grew_by_the_difference() -> None:
    before = [line("a.py", 10, 700, "y = f(x)"), line("a.py", 12, 300, "z = g(y)")]
    now = [line("a.py", 11, 800, "y = f2(x)"), line("a.py", 13, 600, "z = g(y)")]
    grown = grown_most(before, now)
    assert grown is not None and (grown.line, grown.bytes) == (13, 300)


def test_of_lines_that_grew_alike_the_first_is_told() -> None:
    now = [line("a.py", 12, 1001, "z"), line("a.py", 10, 1000, "x"), line("b.py", 1, 1000, "b", "other")]
    grown = grown_most([], now)
    assert grown is not None and grown.line == 10
