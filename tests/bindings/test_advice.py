"""What an out-of-memory error advises works when it is followed, and nothing is advised that would not."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from binding_helpers import MIB, collect, empty, run_well
from frugal_alloc._out_of_memory import ownership
from out_of_memory_messages import failure, leaving, line_of

numbers = itertools.count()

needs_saved_tensors = pytest.mark.skipif(
    not ownership.can_walk(), reason="this torch does not tell what autograd has saved without unpacking it"
)


class Program:
    """Source that is run from a file, so that advice about its lines can be followed."""

    def __init__(self, folder: Path, source: str) -> None:
        self.source = source
        self.path = folder / f"program_{next(numbers)}.py"
        self.path.write_text("import torch\n" + source)

    def run(self) -> None:
        spec = importlib.util.spec_from_file_location(self.path.stem, self.path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        try:
            module.main()
        finally:
            collect()

    def following(self, text: str) -> Program:
        """The program with the first advice of the message followed to the letter."""
        advice = line_of("Change first", text)
        change = re.match(rf"(.+?) before line (\d+) of \S*{self.path.name} frees", advice)
        assert change, advice
        lines = self.path.read_text().splitlines()
        line = int(change[2])
        indent = re.match(r" *", lines[line - 1])[0]
        lines.insert(line - 1, indent + change[1])
        return Program(self.path.parent, "\n".join(lines[1:]) + "\n")


HUNDRED = "torch.zeros(25 << 20, device='cuda')"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    # A module of a temporary folder is the user's if that is on the path, else taken for generated code.
    monkeypatch.syspath_prepend(tmp_path)
    return lambda source: Program(tmp_path, source)


LOOP = f"""
def main():
    for _ in range(3):
        values = {HUNDRED}
        copy = values + 1
        total = copy.sum()
"""
REBOUND = f"""
def main():
    values = {HUNDRED}
    values = {HUNDRED}
"""
LIST = f"""
def main():
    parts = [torch.zeros(12 << 20, device='cuda') for _ in range(2)]
    mean = sum(part.sum() for part in parts)
    return {HUNDRED}, mean
"""
CALLER = f"""
def make():
    return {HUNDRED}

def main():
    weights = {HUNDRED}
    model = weights.clone()
    return make(), model
"""
GRAPH = """
def main():
    scale = torch.ones(1, device='cuda', requires_grad=True)
    for _ in range(2):
        results = (torch.zeros(12 << 20, device='cuda') * scale).exp().sin()
        print(results.shape)
"""


@pytest.mark.parametrize(
    ("source", "room"),
    [(LOOP, 250), (REBOUND, 150), (LIST, 150), (CALLER, 250), pytest.param(GRAPH, 250, marks=needs_saved_tensors)],
    ids=["loop", "rebound", "list", "caller", "graph"],
)
def test_dead_variables_are_named_and_letting_them_go_is_enough(program: Any, source: str, room: int) -> None:
    sick = program(source)
    with leaving(room * MIB):
        text = failure(sick.run)
        sick.following(text).run()


ALIAS = f"""
class Holder: pass
def main():
    holder = Holder()
    values = {HUNDRED}
    holder.same = values
    return {HUNDRED}, holder
"""
SAVED = """
def main():
    scale = torch.ones(1, device='cuda', requires_grad=True)
    values = torch.zeros(25 << 20, device='cuda')
    result = values * scale
    return torch.zeros(25 << 20, device='cuda'), result
"""
READ_LATER = f"""
def main():
    values = {HUNDRED}
    other = {HUNDRED}
    return values, other
"""
CLOSURE = f"""
def main():
    values = {HUNDRED}
    def later():
        return values
    other = {HUNDRED}
    return later, other
"""
SHARED = f"""
def main():
    values = {HUNDRED}
    handle = values.untyped_storage()._share_cuda_()
    return torch.zeros(45 << 20, device='cuda'), handle
"""


@pytest.mark.parametrize(
    "source",
    [ALIAS, SAVED, READ_LATER, CLOSURE, SHARED],
    ids=["held elsewhere", "saved by autograd", "read later", "closure", "shared"],
)
def test_no_deletion_is_advised_where_it_would_free_nothing(program: Any, source: str) -> None:
    # To move what is shared takes as much again.
    with leaving((250 if source == SHARED else 150) * MIB):
        text = failure(program(source).run)
    assert "del " not in text and "= None" not in text, text
    assert ("shared with other processes, there and here" in text) == (source == SHARED), text


GRAPHS = """
resets = {resets}
def main():
    graphs = [torch.cuda.CUDAGraph() for _ in range(3)]
    for graph in graphs:
        with torch.cuda.graph(graph):
            torch.zeros(25 << 20, device='cuda').sum()
    if resets:
        for graph in graphs:
            graph.reset()
    return torch.zeros(75 << 20, device='cuda'), graphs
"""


def test_what_graphs_hold_is_the_reason_where_it_is_enough_and_to_reset_them_is(program: Any) -> None:
    sick = program(GRAPHS.format(resets=False))
    with leaving(450 * MIB):
        text = failure(sick.run)
        collect()
        program(GRAPHS.format(resets=True)).run()
    assert re.search(r"^Held by pools: CUDA graphs and MemPools keep 306\.00 MiB", text, re.MULTILINE), text
    graphs, words = f"CUDA graphs of {sick.path.parent.name}/{sick.path.name}:7", " ".join(text.split())
    assert f"Change first reset() the {graphs}, or let go of them, if they are not needed: 306.00 MiB come" in words
    assert f"102.00 MiB {graphs}: 0 bytes allocated, 102.00 MiB free; resetting them gives back 102.00 MiB" in words
    assert re.search(r" 3\d\d\.\d\d MiB free, of which pools keep 306\.00 MiB\. ", words), text


def test_resetting_graphs_that_are_kept_is_enough_in_the_same_program() -> None:
    with leaving(450 * MIB):
        graphs = [torch.cuda.CUDAGraph() for _ in range(3)]
        for graph in graphs:
            with torch.cuda.graph(graph):
                torch.zeros(25 << 20, device="cuda").sum()
        assert "Change first  reset() the CUDA graphs of " in failure(lambda: empty(300 * MIB))
        for graph in graphs:
            graph.reset()
        collect()
        empty(300 * MIB)


EVALUATION = """
def evaluate(model, batches):
    means = []
    for _ in range(batches):
        means.append(model(torch.zeros(4096, 1024, device='cuda')).mean().item())
    return means

def main():
    layers = [torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.Sigmoid()) for _ in range(8)]
    evaluate(torch.nn.Sequential(*layers).cuda().eval(), 2)
"""


@needs_saved_tensors
def test_evaluation_with_gradients_is_told_and_no_grad_is_enough(program: Any) -> None:
    # Weights and what autograd keeps are 176 MiB; without gradients 80, and what cuBLAS keeps, which differs.
    with leaving(150 * MIB):
        text = failure(program(EVALUATION).run)
        assert "under torch.no_grad()" in line_of("Change first", text), text
        assert "program_" in line_of("Change first", text)
        with torch.no_grad():
            program(EVALUATION).run()


KEPT = """
def main():
    scale = torch.ones(1, device='cuda', requires_grad=True)
    losses = []
    for _ in range(20):
        losses.append((torch.zeros(4 << 20, device='cuda') * scale).exp().sum())
"""


@needs_saved_tensors
def test_results_kept_with_their_graphs_are_told_with_the_line_that_keeps_them(program: Any) -> None:
    healed = program(KEPT.replace(".sum())", ".sum().detach())"))
    with leaving(200 * MIB):
        text = failure(program(KEPT).run)
        healed.run()
    advice = line_of("Change first", text)
    assert re.match(r"`losses` keeps \d results with their graphs: at \S+:7 keep \.detach\(\) of each", advice), text


def test_nothing_is_said_of_no_grad_where_it_is_on(program: Any) -> None:
    with leaving(20 * MIB), torch.no_grad():
        text = failure(program(EVALUATION).run)
    assert "no_grad" not in text, text


CELLS = (
    "Out = _oh = {}",
    "Out[2] = _2 = torch.zeros(12 << 20, device='cuda')",
    "Out[3] = _3 = _ = torch.zeros(12 << 20, device='cuda')",
)


def test_a_notebooks_out_is_named_with_how_to_let_it_go(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = {"torch": torch, "__name__": "__main__"}
    for number, cell in enumerate(CELLS, 1):
        exec(compile(cell, f"<ipython-input-{number}-0123456789ab>", "exec"), notebook)
    # What IPython 8 and 9 have beside it, which %reset -f out leaves.
    shell = types.SimpleNamespace(
        user_ns_hidden={name: notebook[name] for name in ("_2", "_3", "_")},
        displayhook=types.SimpleNamespace(_=notebook["_3"]),
        last_execution_result=types.SimpleNamespace(result=notebook["_3"]),
    )
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    failing = compile(f"large = {HUNDRED}", "<ipython-input-4-0123456789ab>", "exec")
    with leaving(50 * MIB):
        advice = line_of("Change first", failure(exec, failing, notebook))
        assert advice.startswith("`Out` keeps the values of cells' last lines (96.00 MiB): end such a line"), advice
        shell.__dict__.clear()
        monkeypatch.undo()
        for name in ("Out", "_oh", "_2", "_3", "_"):
            del notebook[name]
        exec(failing, notebook)
    notebook.clear()
    collect()


def test_graphs_that_become_more_are_a_leak_and_to_share_a_pool_mends_it() -> None:
    """In a process of its own, since its epochs are its own."""
    code = """
import frugal_alloc, torch
frugal_alloc.enable()
torch.ones(1, device="cuda")
torch.cuda.set_per_process_memory_fraction((1 << 30) / torch.cuda.mem_get_info()[1])
graphs, pool = {{}}, {pool}
try:
    for epoch in range(16):
        static = torch.zeros(1 << 20, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            result = (static.repeat(20) * 2)[:8]
        graphs[epoch] = graph, static
        del result
        frugal_alloc.epoch_end()
except torch.OutOfMemoryError as error:
    report(error=" ".join(str(error).split()))
"""
    sick = run_well(code.format(pool=None))["error"]
    told = re.search(
        r"Leak: what <string>:(\d+) makes stays: [\d.]+ MiB by now, 160\.00 MiB more with each epoch; .*"
        r"Request 80\.00 MiB at <string>:(\d+) .*"
        r"Change first <string>:\1: dict 'graphs' gets more CUDA graphs, .*, into one pool",
        sick,
    )
    assert told and int(told[1]) + 1 == int(told[2]), sick
    # What a graph reads is not to be moved to the host.
    assert "`graphs` holds" not in sick
    assert "error" not in run_well(code.format(pool="torch.cuda.graph_pool_handle()"))
