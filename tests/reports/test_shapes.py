"""JSON that nobody vouches for is read by the annotations of a dataclass, or refused in a line that names the path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest
from frugal_alloc._common import shapes


class Line(NamedTuple):
    file: str
    number: int
    through: str = ""


@dataclass(frozen=True)
class Part:
    size: Annotated[int, shapes.between(0, 100)]
    rate: float | None = None


@dataclass(frozen=True)
class Whole:
    parts: Annotated[tuple[Part, ...], shapes.at_most(3)]
    kind: Annotated[str, shapes.among(("a", "b"))] = "a"
    row: tuple[int, str, bool] = (0, "", False)
    lines: tuple[Line, ...] = ()
    calls: Mapping[str, int] | None = None
    first: Part = Part(1)
    by_number: Mapping[int, Part] | None = None


def test_a_dataclass_is_read_with_all_that_is_within() -> None:
    value = {
        "parts": [{"size": 3, "rate": None, "later": 1}, {"size": 4.0, "rate": 2}],
        "kind": "b",
        "row": [1, "x", True, "of a newer writer"],
        "lines": [["a.py", 1], ["b.py", 2, "c.py"]],
        "calls": {"cudaMalloc": 2},
        "first": {"size": 5},
        "by_number": {"7": {"size": 6}, "-1": {"size": 0}},
        "later": [1],
    }
    assert shapes.read(Whole, value) == Whole(
        (Part(3), Part(4, 2)),
        "b",
        (1, "x", True),
        (Line("a.py", 1), Line("b.py", 2, "c.py")),
        {"cudaMalloc": 2},
        Part(5),
        {7: Part(6), -1: Part(0)},
    )


def test_a_plain_one_keeps_keys_that_are_not_known_and_gets_those_that_lack() -> None:
    value = {"parts": [{"size": 3, "later": [1]}], "later": 1, "first": {"size": 5}}
    for _ in range(2):
        formed = shapes.read(Whole, value, plain=True)
        assert formed["parts"] == [{"size": 3, "rate": None, "later": [1]}]
        assert (formed["later"], formed["lines"], formed["first"]) == (1, [], {"size": 5, "rate": None})
        # What is missing in the next one is not what was made of this one.
        formed["lines"].append(1)
    assert set(value) == {"parts", "later", "first"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parts": None}, "parts: a list is wanted, not null"),
        ({"parts": {}}, "parts: a list is wanted, not an object"),
        ({"parts": 4 * [{"size": 1}]}, "parts: a list of at most 3 values is wanted, not a list of 4"),
        ({"parts": [{"size": 1}, 7]}, "parts[1]: an object is wanted, not 7"),
        ({"parts": [{}]}, "parts[0]: size is missing"),
        ({"parts": [{"size": "x"}]}, 'parts[0].size: a whole number is wanted, not "x"'),
        ({"parts": [{"size": True}]}, "parts[0].size: a number is wanted, not true"),
        ({"parts": [{"size": 0.5}]}, "parts[0].size: a whole number is wanted, not 0.5"),
        ({"parts": [{"size": 101}]}, "parts[0].size: a number from 0 to 100 is wanted, not 101"),
        ({"parts": [{"size": 10**5000}]}, "parts[0].size: a number below 2**63 is wanted, not a number of 16610 bits"),
        ({"parts": [{"size": 1, "rate": float("-inf")}]}, "rate: a number below 2**63 is wanted, not -Infinity"),
        ({"parts": [{"size": 1, "rate": False}]}, "parts[0].rate: a number is wanted, not false"),
        ({"kind": "c"}, 'kind: one of a, b is wanted, not "c"'),
        ({"kind": ["a"]}, "kind: a text is wanted, not a list of 1"),
        ({"kind": "\x1b[2J\n\u202e\ud800"}, 'not "\\u001b[2J\\n\\u202e\\ud800"'),
        ({"kind": "x" * 30_000}, 'not "' + "x" * 40 + '"...'),
        ({"row": [1, "x"]}, "row: a list of 3 values is wanted, not a list of 2"),
        ({"row": [1, "x", 1]}, "row[2]: true or false is wanted, not 1"),
        ({"lines": [["a.py"]]}, "lines[0]: a list of 2 values is wanted, not a list of 1"),
        ({"lines": [["a.py", 1, None]]}, "lines[0][2]: a text is wanted, not null"),
        ({"calls": [1]}, "calls: an object is wanted, not a list of 1"),
        ({"calls": {"\n" + 9000 * "k": 1.5}}, 'calls["\\n' + 39 * "k" + '"...]: a whole number is wanted, not 1.5'),
        ({"by_number": {"7": 1}}, 'by_number["7"]: an object is wanted, not 1'),
        ({"by_number": {"x": {"size": 1}}}, 'by_number: a whole number for a key is wanted, not "x"'),
        ({"by_number": {"9" * 5000: {"size": 1}}}, "by_number: a whole number for a key is wanted, not"),
        ({"by_number": {"\u0661": {"size": 1}}}, 'a whole number for a key is wanted, not "\\u0661"'),
        ({"first": {"size": None}}, "first.size: a whole number is wanted, not null"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_path(change: dict[str, Any], said: str) -> None:
    for plain in (False, True):
        with pytest.raises(shapes.Misshapen) as refused:
            shapes.read(Whole, {"parts": []} | change, plain)
        assert said in str(refused.value)
        assert str(refused.value).isprintable() and len(str(refused.value)) < 200


@pytest.mark.parametrize("value", [None, [], "x", 7, float("nan")])
def test_other_values_are_no_object(value: Any) -> None:
    with pytest.raises(shapes.Misshapen, match=r"^an object is wanted, not "):
        shapes.read(Whole, value)
