"""Memory that is asked for by code of all kinds of owners: test_whose_lines.py checks which line is told of each."""

import atexit
import importlib.util
import json
import linecache
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import types

import frugal_alloc
import torch

frugal_alloc.enable()
kept = []
results = {}
FOLDER = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, FOLDER)

MODULE = """
import torch

def made(size=3000):
    return torch.ones(size, device="cuda")

kept = []

def keep():
    kept.append(made())

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(context, inputs):
        return inputs * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2
"""


def told(leave):
    """What no_leaks() tells of what a call leaves behind, without the bytes."""
    try:
        with frugal_alloc.no_leaks():
            kept.append(leave())
    except frugal_alloc.LeakError as error:
        return [" ".join(line.split()[2:]) for line in str(error).splitlines()[1:]]


def loaded(folder, name):
    """As a library loads what it has just generated."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(MODULE)
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_a_cell(code, file, number):
    """As IPython and ipykernel carry out a cell."""
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    shell.compile._filename_map[file] = number
    exec(compile(code, file, "exec"), globals())


def gradient_of(function):
    weights = torch.ones(3000, device="cuda", requires_grad=True)
    twice = function(weights)  # line: forward
    (gradient,) = torch.autograd.grad(twice, weights, torch.ones_like(twice))
    return gradient


def in_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={}))
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)

generated = loaded(FOLDER / "generated", "generated_layer")
results["generated module"] = told(lambda: generated.made())  # line: generated
wrapper = loaded(FOLDER / "lib" / "site-packages", "wrapper")
results["wrapper"] = told(lambda: wrapper.made())  # line: wrapper
results["library's function"] = told(lambda: gradient_of(wrapper.Scale.apply))
own = FOLDER / "own"
sys.path.insert(0, str(own))
mine = loaded(own, "mine")
results["own module"] = told(mine.made)
results["executed text"] = told(lambda: eval("torch.ones(3000, device='cuda')"))  # line: executed
cell = os.path.join(tempfile.gettempdir(), "ipykernel_123", "456.py")
in_a_cell("# A cell\ndef in_cell():\n    return torch.ones(3000, device='cuda')\n", cell, 3)
results["cell"] = told(in_cell)  # noqa: F821
in_a_cell("def in_ipython(): return torch.ones(3000, device='cuda')\n", "<ipython-input-7-0123456789ab>", 7)
results["IPython's cell"] = told(in_ipython)  # noqa: F821
results["library's thread"] = told(lambda: in_a_thread(wrapper.keep))

for _ in range(12):
    kept.append(in_cell())  # noqa: F821
    frugal_alloc.epoch_end()
report = frugal_alloc.report()
results["report's text"] = str(report)
results["report's verdicts"] = [[one["file"], one["line"], one["code"]] for one in report.document["verdicts"]]
in_a_cell(
    "kept_there = []\ndef fill():\n    while True: kept_there.append(torch.ones(1 << 26, device='cuda'))\n", cell, 9
)
try:
    fill()  # noqa: F821
except torch.cuda.OutOfMemoryError as error:
    results["error"] = str(error)
print("RESULTS" + json.dumps(results))
