"""The search for the largest batch and the smallest GPU."""

import dataclasses

import pytest
import verdict_samples
from frugal_alloc._planning.fit import search
from frugal_alloc._planning.fit.search import Argument, SearchError
from frugal_alloc._planning.fit.verdict import Gpu, Moment, RankPeaks, Verdict

MEMORY = 1000


def verdict(used: int, fits: bool | None = None) -> Verdict:
    moment = Moment("forward", 1, None, used, {"activations": used})
    rank = RankPeaks(0, 0, moment, (moment,), (), (), used, used)
    fits = used <= MEMORY if fits is None else fits
    return verdict_samples.fitting(gpu=Gpu("a GPU", MEMORY, 0, ""), fits=fits, ranks=(rank,))


@pytest.mark.parametrize("slope", [1, 3, 7, 10, 33, 90, 124])
@pytest.mark.parametrize("curve", [0, 0.02])
def test_the_largest_batch_is_found_in_few_runs(slope, curve):
    def used(batch: int) -> int:
        return int(100 + slope * batch + curve * batch * batch)

    found, value = search.largest(Argument("--batch", 4, 256), lambda batch: verdict(used(batch)))
    largest = max(batch for batch in range(4, 257) if used(batch) <= MEMORY)
    assert 0 <= largest - value <= largest // 100
    assert len(found.tried) <= (7 if curve == 0 else 12)
    assert found.found == str(value)


def test_a_least_value_that_does_not_fit_ends_the_search():
    found, value = search.largest(Argument("--batch", 8, 256), lambda batch: verdict(2000))
    assert value is None
    assert [one.value for one in found.tried] == ["8"]


def without_a_verdict(ended: str, status: int) -> Verdict:
    return dataclasses.replace(verdict(0), fits=None, ended=ended, exit_status=status)


@pytest.mark.parametrize("ended, status", [("failed", 1), ("failed", 7), ("interrupted", 130), ("itself", 0)])
@pytest.mark.parametrize("fitting", [4, 8, 16, 100])
def test_a_run_without_a_verdict_ends_the_search_and_is_no_evidence_of_a_value_too_large(ended, status, fitting):
    def fit(batch: int) -> Verdict:
        return verdict(batch) if batch < fitting else without_a_verdict(ended, status)

    found, value = search.largest(Argument("--batch", 4, 256), fit)
    assert (value, found.found, found.fits, found.ended, found.exit_status) == (None, "", None, ended, status)
    *before, last = found.tried
    assert (last.fits, last.ended, last.exit_status) == (None, ended, status)
    assert [one.fits for one in before] == [True] * len(before)


def test_an_interruption_between_two_runs_tells_what_is_known():
    def fit(batch: int) -> Verdict:
        if batch > 8:
            raise KeyboardInterrupt
        return verdict(batch)

    found, value = search.largest(Argument("--batch", 4, 256), fit)
    assert (value, found.fits, found.ended, found.exit_status, found.ranks) == (None, None, "interrupted", 130, ())
    assert [one.fits for one in found.tried] == [True, True, None]
    with pytest.raises(KeyboardInterrupt):
        search.largest(Argument("--batch", 9, 256), fit)


@pytest.mark.parametrize("most", [4, 5, 9, 16, 200, 256, 1000, 1001])
def test_a_range_that_fits_to_its_end_is_tried_there(most):
    found, value = search.largest(Argument("--batch", 4, most), lambda batch: verdict(100 + batch // 4))
    assert (value, found.found_is_last) == (most, True)
    assert str(most) in [one.value for one in found.tried]


def test_an_answer_within_the_range_is_not_its_end():
    found, _ = search.largest(Argument("--batch", 4, 256), lambda batch: verdict(10 * batch))
    assert not found.found_is_last
    found, _ = search.largest(Argument("--batch", 4, 101), lambda batch: verdict(10 * batch))
    assert (found.found, found.found_is_last) == ("100", False)


@pytest.mark.parametrize("ended, status", [("failed", 1), ("interrupted", 130)])
def test_a_gpu_on_which_a_program_says_nothing_is_not_one_that_it_does_not_fit(ended, status):
    def fit(name: str) -> Verdict:
        return without_a_verdict(ended, status) if name == "two" else verdict(0, fits=name == "four")

    found, name = search.smallest(("one", "two", "three", "four"), fit)
    assert (name, found.found, found.fits, found.ended) == (None, "", None, ended)
    assert [(one.value, one.fits) for one in found.tried] == [("two", None)]


@pytest.mark.parametrize("memory", [0, 150, 320, 1000])
def test_the_smallest_gpu_is_the_first_that_fits(memory):
    sizes = {"one": 100, "two": 200, "three": 300, "four": 400}
    fitting = [name for name, size in sizes.items() if size >= memory]
    found, name = search.smallest(tuple(sizes), lambda one: verdict(memory, fits=sizes[one] >= memory))
    assert name == (fitting[0] if fitting else None)
    assert found.searched == "GPU"


@pytest.mark.parametrize(
    "text, command, expected",
    [
        ("--batch-size=8..256", ["python", "t.py", "--batch-size", "4"], ["python", "t.py", "--batch-size", "9"]),
        ("batch-size=8..256", ["python", "t.py", "--batch_size=4"], ["python", "t.py", "--batch_size=9"]),
        ("data.batch=8..256", ["python", "t.py", "data.batch=4"], ["python", "t.py", "data.batch=9"]),
        ("--batch-size=8..256", ["python", "t.py"], ["python", "t.py", "--batch-size", "9"]),
        ("batch=8..256", ["python", "t.py"], ["python", "t.py", "--batch", "9"]),
    ],
)
def test_a_value_is_put_where_the_program_has_its_argument(text, command, expected):
    assert Argument.parse(text, command).put(command, 9) == expected


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "--find-batch needs an argument of the program with the range to search"),
        ("8..256", "'8..256' names no argument of the program"),
        ("8", "'8' names no argument of the program"),
        ("batch", "'batch' is no argument with a range"),
        ("=1..2", "'=1..2' is no argument with a range"),
        ("batch=1..1e9", "'batch=1..1e9' is no argument with a range"),
    ],
)
def test_what_is_no_range_is_refused_with_an_example(text, said):
    with pytest.raises(SearchError) as refused:
        Argument.parse(text, ["python", "t.py"])
    assert str(refused.value).endswith(f"{said}; write it like --find-batch --batch-size=8..256")


@pytest.mark.parametrize(
    "text, said, meant",
    [
        ("--batch=8", "is a single value", "--batch=8..256"),
        ("batch=9..8", "runs backwards", "batch=8..9"),
        ("batch=8..0", "runs backwards", "batch=1..8"),
        ("--batch=0..8", "begins below 1", "--batch=1..8"),
        ("--batch=0..0", "begins below 1", "--batch=1..1"),
    ],
)
def test_a_wrong_range_is_refused_with_the_one_that_may_be_meant(text, said, meant):
    with pytest.raises(SearchError) as refused:
        Argument.parse(text, ["python", "t.py"])
    assert str(refused.value) == f"the range of {text!r} {said}; write it like --find-batch {meant}"
    Argument.parse(meant, ["python", "t.py"])


def test_a_range_in_a_word_of_its_own_is_refused_with_the_right_form():
    with pytest.raises(SearchError, match=r"write --find-batch --batch=8\.\.256$"):
        Argument.parse("--batch", ["8..256", "--", "python", "t.py"])
