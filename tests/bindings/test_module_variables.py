"""Variables of a script that nothing reads any more are known, also where functions have read them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import fork_server
import pytest
from binding_helpers import ORDER
from frugal_alloc._out_of_memory import scene, variables
from frugal_alloc._program import source as sources
from frugal_alloc._simulation import simulated_gpu

STRAIGHT = """
class Model:
    def eval(self):
        return self
first = [1]
second = first + [1]
model = Model().eval()
third = ask()
"""
# What is dead, in the program.
DEAD = {
    "straight": ({"first", "second", "model"}, STRAIGHT),
    "function that is done": (
        {"raw"},
        """
def prepare():
    return raw[0]
raw = [1]
mean = prepare()
rest = ask()
print(mean)
""",
    ),
    "called by one that is done": (
        {"raw", "mean"},
        """
def shift():
    return raw + [1]
def prepare():
    return shift()[0]
raw = [1]
mean = prepare()
rest = ask()
""",
    ),
    "within a call": (
        {"raw"},
        """
def work():
    return ask()
raw = [1]
print(raw)
work()
""",
    ),
    "attribute of the same name": (
        {"raw"},
        """
class Batch:
    def size(self):
        return self.raw
raw = [1]
rest = ask()
""",
    ),
}


def dead_in(folder: Path, source: str, name: str = "__main__") -> set[str]:
    """The variables of a script that are dead when it calls ask() for the last time."""
    path = folder / "train.py"
    path.write_text(source)
    found: list[set[str]] = []

    def ask() -> list[int]:
        frames = scene.frames()
        (frame,) = [one for one in frames if one.file == str(path) and one.function == "<module>"]
        now = scene.statement(frame)
        assert now is not None
        flow = variables.flow_of_module(frame, now, frames)
        dead = set(flow.dead(frame.values, frame.offset, now.first, now.last))
        found.append(dead if variables._is_program(frame) else set())
        return [1]

    exec(compile(source, str(path), "exec"), {"__name__": name, "ask": ask})
    sources.forget()
    return found[-1]


@pytest.mark.parametrize("kind", DEAD)
def test_what_nothing_reads_any_more_is_dead(tmp_path: Path, kind: str) -> None:
    names, source = DEAD[kind]
    assert names <= dead_in(tmp_path, source)


# Programs in which `raw` may still be read.
READ_LATER = {
    "called later": """
def report():
    return raw[0]
raw = [1]
rest = ask()
report()
""",
    "called in the next round": """
def report():
    return raw[0]
raw = [1]
rest = []
for _ in range(5):
    report()
    rest.append(ask())
""",
    "called by one called later": """
def inner():
    return raw[0]
def report():
    return inner()
raw = [1]
rest = ask()
report()
""",
    "handed on": """
import atexit
def report():
    print(raw)
atexit.register(report)
raw = [1]
rest = ask()
""",
    "generator": """
def batches():
    yield 1
    yield raw
raw = [1]
iterator = batches()
next(iterator)
rest = ask()
next(iterator)
""",
    "returns a function": """
def make():
    return lambda: raw
raw = [1]
later = make()
rest = ask()
later()
""",
    "method": """
class Model:
    def forward(self):
        return raw
raw = [1]
rest = ask()
""",
    "runs now": """
def main():
    rest = ask()
    return rest, raw
raw = [1]
main()
""",
    "all names": """
raw = [1]
rest = ask()
print(globals()["raw"])
""",
}


@pytest.mark.parametrize("kind", READ_LATER)
def test_what_a_function_may_still_read_is_not_dead(tmp_path: Path, kind: str) -> None:
    assert "raw" not in dead_in(tmp_path, READ_LATER[kind])


def test_variables_of_a_module_that_others_import_are_not_dead(tmp_path: Path) -> None:
    assert dead_in(tmp_path, STRAIGHT, name="train") == set()


# Of 1 GiB, 512 MiB are the CUDA context's. A piece is 100 MiB.
PROGRAM = """
import frugal_alloc, torch
frugal_alloc.enable(report_dir="off")
def piece(): return torch.zeros(25 << 20, device="cuda")
def prepare():
    return raw.mean()
model = torch.nn.Linear(2, 2).eval()
raw = piece()
mean = prepare()
rest = [piece() for _ in range(5)]
print(mean.shape)
"""


def run(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    program = folder / "train.py"
    program.write_text(source)
    return fork_server.run([sys.executable, program], env=os.environ | simulated_gpu.environment(1 << 30))


def test_an_error_names_them_and_letting_them_go_is_enough(tmp_path: Path) -> None:
    text = ORDER.sub("", run(tmp_path, PROGRAM).stderr)
    change = re.search(r"^Change first\s+(del raw) before line (\d+) of \S*train\.py frees 100\.00 MiB", text, re.M)
    assert change, text
    lines = PROGRAM.splitlines()
    lines.insert(int(change[2]) - 1, change[1])
    done = run(tmp_path, "\n".join(lines))
    assert done.returncode == 0, done.stderr
