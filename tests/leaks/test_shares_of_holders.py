"""What holds a part of a leak is told with that part, and what holds little of it is not accused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

# Each step leaves one tensor behind; where it goes says the argument.
PROGRAM = """
import ctypes, gc, json, sys, warnings
import frugal_alloc, torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

frugal_alloc.enable()
first, second, everything = [], [], []
touched = []

def lose(tensor):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))

def halves(tensor, number):
    (first, second)[number % 2].append(tensor)

def one_of_four_known(tensor, number):
    first.append(tensor) if number % 4 == 0 else lose(tensor)

def three_of_four_known(tensor, number):
    first.append(tensor) if number % 4 else lose(tensor)

def watchful(tensor, number):
    everything.append(tensor)

class Meta(type):
    def __eq__(self, other): touched.append("eq of the class"); return False
    def __hash__(self): touched.append("hash of the class"); return 1
    def __getattribute__(self, name): touched.append("class." + name); return type.__getattribute__(self, name)

class Watchful(metaclass=Meta):
    '''Every way to ask it anything is noted.'''
    def __getattr__(self, name): touched.append(name); raise AttributeError(name)
    def __getattribute__(self, name): touched.append(name); return object.__getattribute__(self, name)
    def __len__(self): touched.append("len"); return 0
    def __eq__(self, other): touched.append("eq"); return False
    __hash__ = None
    def __repr__(self): touched.append("repr"); return ""
    def __iter__(self): touched.append("iter"); return iter(())
    @property
    def __class__(self): touched.append("class"); return list
    @property
    def __dict__(self): touched.append("dict"); return {}

class Standing(torch.Tensor):
    '''A tensor that stands for others: each operation is its class's.'''
    @staticmethod
    def __new__(cls): return torch.Tensor._make_wrapper_subclass(cls, (4,), device="cuda", requires_grad=True)
    @classmethod
    def __torch_dispatch__(cls, function, *rest): touched.append(str(function)); raise RuntimeError("not to be called")
    @classmethod
    def __torch_function__(cls, function, *rest): touched.append(str(function)); raise RuntimeError("not to be called")

warnings.simplefilter("error")
program = globals()[sys.argv[1]]
if program is watchful:
    with FakeTensorMode():
        fake = torch.empty(10, device="cuda")
    strange = [Watchful(), Standing(), fake, torch.empty(3, device="meta"), torch.ones(3).to_sparse()]
    inside = []
    functional = torch.func.functionalize(lambda values: inside.append(values) or values * 1)(torch.ones(2))
    torch.vmap(lambda values: inside.append(values) or values * 1)(torch.ones(2, 2))
    touched.clear()
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(64):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    program(torch.zeros(1 << 16, device="cuda"), number)
report = frugal_alloc.report()
print("RESULTS" + json.dumps([report.document["verdicts"], str(report), touched, report.document["notes"]]))
"""


@pytest.mark.parametrize(
    ("name", "shares", "pattern", "words"),
    [
        ("halves", {"list 'first'": 0.5, "list 'second'": 0.5}, "outputs_kept", "% of it"),
        ("three_of_four_known", {"list 'first'": 0.75}, "outputs_kept", "% of it"),
        # Who holds the smaller part gets no remedy.
        ("one_of_four_known", {"list 'first'": 0.25}, "unknown", "most of it"),
    ],
)
def test_each_that_holds_much_is_told_with_its_share(
    name: str, shares: dict[str, float], pattern: str, words: str, run_program: Callable[..., Any]
) -> None:
    (verdict, *_), text, *_ = run_program(PROGRAM, name)
    told = {holder["what"]: holder["share"] for holder in verdict["held_by"]}
    assert told == pytest.approx(shares, abs=0.05)
    assert sum(told.values()) == pytest.approx(sum(shares.values()), abs=0.05 if len(told) == 1 else 0.001)
    assert verdict["pattern"] == pattern
    assert words in f"{text} {verdict['advice']}"


def test_no_code_of_the_programs_runs_and_no_tensor_that_stands_for_others_is_asked(
    run_program: Callable[..., Any],
) -> None:
    verdicts, text, touched, notes = run_program(PROGRAM, "watchful")
    assert [(holder["what"], holder["share"]) for holder in verdicts[0]["held_by"]] == [("list 'everything'", 1)], text
    assert touched == []
    assert not any("tracking stopped" in note for note in notes), notes
