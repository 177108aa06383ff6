"""The same code takes the same in each run: whatever ran before, in whichever order, whoever left garbage.

A baseline is of tests that are forked; what is compared with it has an interpreter of its own, and takes the same, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from checked_project import Project

CONFTEST = """
import os, random

def pytest_collection_modifyitems(items):
    if "SHUFFLE" in os.environ:
        random.Random(int(os.environ["SHUFFLE"])).shuffle(items)
"""
TESTS = '''
import functools, gc, os, random, threading

import pytest
import torch

made = []


class Node:
    """Garbage that only a collection finds."""

    def __init__(self, rows):
        self.me, self.memory = self, torch.empty(rows, 1024, device="cuda")


@functools.cache
def frequencies():
    return torch.arange(512, device="cuda").float() / 512


@pytest.fixture(scope="module")
def model():
    return torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()


@pytest.mark.parametrize("number", range(30))
def test_same(number):
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        (model(torch.ones(64, 512, device="cuda")) * frequencies()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("number", range(10))
def test_with_shared_model(model, number):
    (model(torch.ones(64, 512, device="cuda")) * frequencies()).sum().backward()


@pytest.mark.parametrize("rows", range(20))
def test_garbage(rows):
    Node(1000 * rows)
    # Objects of any number move the moments of later collections.
    made.append([[] for _ in range(random.randrange(3000))])


@pytest.mark.parametrize("count", [1, 3])
def test_threads(count):
    def work():
        torch.ones(1 << 20, device="cuda").sum()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_cpu_only():
    assert torch.ones(3).sum() == 3
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("repeats"))
    project.write("conftest.py", CONFTEST)
    project.write("test_it.py", TESTS)
    outcome = project.check("--update", "--values", "none")
    assert outcome.status == 0, outcome.out + outcome.err
    project.python = sys.executable
    return project


def without_order(record: dict[str, Any]) -> dict[str, Any]:
    """Without what the one that comes first has: what stays, and what the allocator has kept for it."""
    stays = ("peak", "leaked", "leaks", "holder", "gpu", "waste", "calls", "slack", "lines")
    return {"released": record["peak"], **{name: value for name, value in record.items() if name not in stays}}


def test_repeats_in_one_process_are_alike(project: Project) -> None:
    found = [record for name, record in project.records.items() if "test_same" in name]
    assert len(found) == 30
    first = without_order(found[0])
    assert all(without_order(record) == first for record in found)
    # All but the first, which fills the cache.
    assert sum("leaks" in record for record in found) == 1
    # It found no room in what the allocator held before; that is what slack is about.
    assert len({record["gpu"] for record in found[1:]}) == 1


def test_another_order_is_no_change(project: Project) -> None:
    outcome = project.check("--json", SHUFFLE="1", PYTHONHASHSEED="1")
    assert outcome.json["regressions"] == []
    assert outcome.json["new"] == {}
    assert outcome.status == 0
    assert outcome.json["compared"] == len(project.records)


def test_a_test_by_itself_is_no_change(project: Project) -> None:
    name = "test_it.py::test_with_shared_model[3]"
    outcome = project.check("--json", pytest_options=[name])
    assert outcome.json["regressions"] == []
    assert name not in outcome.json["missing"] and len(outcome.json["missing"]) > 30


def test_what_threads_take_in_turns_is_not_compared(project: Project) -> None:
    assert "peak" not in project.records["test_it.py::test_threads[3]"]
    assert project.records["test_it.py::test_threads[3]"]["leaked"] == 0


def test_figures_that_differ_between_runs_are_left_out(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(
        "test_it.py",
        "import os, torch\n"
        "def test_by_chance():\n"
        "    open('runs', 'a').write('x')\n"
        "    torch.empty(1 << 20, os.path.getsize('runs'), device='cuda')\n"
        "def test_steady():\n"
        "    torch.empty(1 << 20, device='cuda')\n",
    )
    assert project.check("--update", "--runs", "2", "--values", "none").status == 0
    assert "peak" not in project.records["test_it.py::test_by_chance"]
    assert project.records["test_it.py::test_steady"]["peak"] == 4 << 20
    outcome = project.check()
    assert outcome.status == 0
    assert "test_by_chance: peak not compared" in outcome.out


@pytest.mark.parametrize("allocator", ["expandable", "frugal"])
def test_every_allocator_repeats(tmp_path: Path, allocator: str) -> None:
    project = Project(tmp_path)
    project.write("conftest.py", CONFTEST)
    project.write("test_it.py", TESTS.replace("range(30)", "range(4)"))
    assert project.check("--update", "--allocator", allocator, "--values", "none").status == 0
    project.python = sys.executable
    assert project.baseline["allocator"] == allocator
    assert project.check(SHUFFLE="1").status == 0
