"""What a report advises is done to the program, and the leak is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

HEAD = """
import collections, copy, functools
import gc
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(32, 64)), batch_size=8)
"""


class Remedy(NamedTuple):
    pattern: str
    advised: str  # words of the advice
    program: str
    leaking: str  # a part of the program
    mended: str  # what takes its place, as advised


def loop(before: str, step: str, after_epoch: str = "pass") -> str:
    """A training with a step of its own."""
    return f"""{HEAD}
{before}
for epoch in range(12):
    for (inputs,) in loader:
        inputs = inputs.cuda()
        outputs = model(inputs)
        loss = outputs.square().mean()
        {step}
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    {after_epoch}
"""


EMBEDDED = """
numbers = iter(range(1000))
@functools.lru_cache(maxsize=None)
def embedded(number):
    return torch.full((64, 64), float(number), device="cuda")
"""
CONTEXT = """
gc.disable()
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        ctx.y = values * 2
        return ctx.y
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
"""
SAVED = "doubled = values * 2; ctx.save_for_backward(doubled)\n        return doubled"
CHECK = """
errors = []
def check(inputs):
    workspace = inputs.repeat(16, 1)
    raise ValueError(len(workspace))
def checked(inputs):
    try:
        check(inputs)
    except ValueError as error:
        errors.append(error)
"""
HOOK = """
activations = []
def keep(module, arguments, output):
    activations.append(output * 2)
model.register_forward_hook(keep)
"""
METRIC = """
class MeanMetric:
    def __init__(self): self.values = []
    def update(self, value): self.values.append(value.repeat(16, 1))
    def reset(self): self.values.clear()
metric = MeanMetric()
"""
ADD_HOOK = "model.register_forward_hook(lambda *_, large=inputs.repeat(16, 1): None if large.numel() else 0)"
ONCE = "handle = " + ADD_HOOK + "; handle.remove()"
IN_A_TABLE = loop("table = {}", "table[len(table)] = inputs.repeat(16, 1)")
LINE_OF_THE_TABLE = IN_A_TABLE[: IN_A_TABLE.index("table[")].count("\n") + 1
DECLARED = f'import frugal_alloc; frugal_alloc.expect_growth("declared_mended.py:{LINE_OF_THE_TABLE}"); import gc'

REMEDIES = {
    "losses": Remedy(
        "loss_graph", "store or add loss.item()", loop("losses = []", "losses.append(model(inputs).mean())"),
        "losses.append(model(inputs).mean())", "losses.append(model(inputs).mean().item())",
    ),
    "losses of the class": Remedy(
        "loss_graph", "loss.detach()", loop("class Log:\n    losses = []", "Log.losses.append(model(inputs).mean())"),
        ".mean())", ".mean().detach())",
    ),
    "running total": Remedy(
        "loss_graph", "loss.detach()", loop("total = 0.0", "total = total + model(inputs).mean()"),
        "model(inputs).mean()", "model(inputs).mean().detach()",
    ),
    "outputs with graphs": Remedy(
        "outputs_kept", "store output.detach().cpu()", loop("kept = []", "kept.append(outputs)"),
        "kept.append(outputs)", "kept.append(outputs.detach().cpu())",
    ),
    "copies": Remedy(
        "outputs_kept", "store .cpu()", loop("kept = []", "kept.append(inputs.repeat(16, 1))"),
        "repeat(16, 1)", "repeat(16, 1).cpu()",
    ),
    "hidden state": Remedy(
        "hidden_state", "hidden = hidden.detach()",
        loop("hidden = torch.zeros(8, 64, device='cuda')", "hidden = torch.tanh(model(hidden))"),
        "hidden = torch.tanh(model(hidden))", "hidden = hidden.detach(); hidden = torch.tanh(model(hidden))",
    ),
    "hook": Remedy(
        "hook", "output.detach().cpu()", loop(HOOK, "pass"), "output * 2)", "output.detach().cpu())",
    ),
    "hooks added": Remedy("hooks_added", "handle.remove()", loop("", ADD_HOOK), ADD_HOOK, ONCE),
    "cached function": Remedy(
        "unbounded_cache", "functools.lru_cache(maxsize=...)", loop(EMBEDDED, "embedded(next(numbers))"),
        "maxsize=None", "maxsize=4",
    ),
    "declared": Remedy(
        "unbounded_cache", f'/declared_leaking.py:{LINE_OF_THE_TABLE}")', IN_A_TABLE, "import gc", DECLARED,
    ),
    "metric": Remedy(
        "metric_state", "call its reset() after each epoch", loop(METRIC, "metric.update(inputs)"),
        "    pass\n", "    metric.reset()\n",
    ),
    "context": Remedy(
        "context_attribute", "ctx.save_for_backward()", loop(CONTEXT, "loss = Doubled.apply(outputs).mean()"),
        "ctx.y = values * 2\n        return ctx.y", SAVED,
    ),
    "exceptions": Remedy(
        "stored_exception", "store str(error)", loop(CHECK, "checked(inputs)"), "append(error)", "append(str(error))",
    ),
    "checkpoints": Remedy(
        "checkpoint_copy", ".cpu() for name, value in model.state_dict().items()",
        loop("kept = []", "pass", "kept.append(copy.deepcopy(model.state_dict()))"),
        "copy.deepcopy(model.state_dict())", "{name: value.cpu() for name, value in model.state_dict().items()}",
    ),
}  # fmt: skip

RUNNER = """
import gc, importlib.util, json, os, sys
import frugal_alloc
from frugal_alloc import _native, _tracking
frugal_alloc.enable()
# What lies in a temporary folder that a program is not loaded from is nobody's.
sys.path.insert(0, os.path.dirname(sys.argv[1]))
# Nothing of the process's beginning is a program's.
results = {}
def run(path):
    spec = importlib.util.spec_from_file_location("program_of_a_user", path)
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[spec.name])

run(sys.argv[1])
for path in sys.argv[1:]:
    sys.modules.pop("program_of_a_user")
    gc.enable()
    gc.collect()
    _tracking.restart(_native.load())
    run(path)
    report = frugal_alloc.report()
    results[path] = [report.verdicts, str(report)]
print("RESULTS" + json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(run_program, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("remedies")
    paths = []
    for name, remedy in REMEDIES.items():
        mended = remedy.program.replace(remedy.leaking, remedy.mended)
        assert mended != remedy.program
        for state, source in (("leaking", remedy.program), ("mended", mended)):
            paths.append(folder / f"{name.replace(' ', '_')}_{state}.py")
            paths[-1].write_text(source)
    found = run_program(RUNNER, *map(str, paths), memory="4GiB")
    return {Path(path).stem: result for path, result in found.items()}


@pytest.mark.parametrize("name", REMEDIES)
def test_remedy_is_advised(name, results):
    verdicts, text = results[f"{name.replace(' ', '_')}_leaking"]
    assert verdicts, text
    assert verdicts[0]["pattern"] == REMEDIES[name].pattern, text
    assert REMEDIES[name].advised in verdicts[0]["advice"], text


@pytest.mark.parametrize("name", REMEDIES)
def test_remedy_ends_the_leak(name, results):
    verdicts, text = results[f"{name.replace(' ', '_')}_mended"]
    assert verdicts == [], text
