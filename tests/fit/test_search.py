"""The search for the largest batch and the smallest GPU."""

import pytest
from frugal_alloc._fit import search
from frugal_alloc._fit.search import Argument, SearchError
from frugal_alloc._fit.verdict import Gpu, Moment, RankPeaks, Verdict

MEMORY = 1000


def verdict(used: int, fits: bool | None = None) -> Verdict:
    moment = Moment("forward", 1, None, used, {"activations": used})
    rank = RankPeaks(0, 0, moment, (moment,), (), (), used, used)
    return Verdict(
        command=("python", "train.py"),
        gpu=Gpu("a GPU", MEMORY, 0, ""),
        gpus=1,
        allocator="frugal",
        fits=used <= MEMORY if fits is None else fits,
        ended="steps",
        exit_status=0,
        steps=5,
        needs_bytes=None,
        ranks=(rank,),
        changes=(),
        guesses=(),
        not_modelled=(),
    )


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


def test_a_program_that_fails_by_itself_ends_the_search_without_an_answer():
    def fit(batch: int) -> Verdict:
        failed = verdict(100, fits=True) if batch == 8 else verdict(0)
        return failed if batch == 8 else search.dataclasses.replace(failed, fits=None, ended="failed")

    found, value = search.largest(Argument("--batch", 8, 256), fit)
    assert value is None
    assert found.ended == "failed"


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
