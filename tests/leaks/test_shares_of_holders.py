"""What holds a part of a leak is told with that part, and what holds little of it is not accused."""

from __future__ import annotations

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

NAMES = ["halves", "one_of_four_known", "three_of_four_known", "watchful"]


@pytest.fixture(scope="module")
def results(run_program) -> dict[str, Any]:
    return {name: run_program(PROGRAM, name) for name in NAMES}


def told(results: dict[str, Any], name: str) -> list[tuple[str, float]]:
    verdicts = results[name][0]
    assert verdicts, results[name][1]
    return [(holder["what"], holder["share"]) for holder in verdicts[0]["held_by"]]


def test_two_that_hold_a_half_each_are_both_told_with_it(results):
    holders = dict(told(results, "halves"))
    assert holders == {
        "list 'first'": pytest.approx(0.5, abs=0.05),
        "list 'second'": pytest.approx(0.5, abs=0.05),
    }
    assert sum(holders.values()) == pytest.approx(1, abs=0.001)


def test_who_holds_the_most_is_told_with_what_it_holds(results):
    assert told(results, "three_of_four_known") == [("list 'first'", pytest.approx(0.75, abs=0.05))]
    assert "% of it" in results["three_of_four_known"][1]
    assert results["three_of_four_known"][0][0]["pattern"] == "outputs_kept"


def test_who_holds_the_smaller_part_gets_no_remedy(results):
    assert told(results, "one_of_four_known") == [("list 'first'", pytest.approx(0.25, abs=0.05))]
    verdict = results["one_of_four_known"][0][0]
    assert verdict["pattern"] == "unknown"
    assert "most of it" in verdict["advice"]


def test_no_code_of_the_programs_runs_and_no_tensor_that_stands_for_others_is_asked(results):
    _, text, touched, notes = results["watchful"]
    assert told(results, "watchful") == [("list 'everything'", 1)], text
    assert touched == []
    assert not any("tracking stopped" in note for note in notes), notes
