"""Runs twins and benign programs, each as if it were alone in the process; prints what is reported of each as JSON."""

from __future__ import annotations

import gc
import json
import sys

import benign_programs
import frugal_alloc
import torch
import twins
from frugal_alloc import _native, _tracking
from twin_training import mean_square, train


def verdicts_of(program) -> dict:
    """What a report says while the program's frames are gone, as at exit."""
    gc.collect()
    _tracking.restart(_native.load())
    program()
    report = frugal_alloc.report()
    epochs = report.document["epochs"]
    return {"verdicts": report.verdicts, "notes": report.document["notes"], "epochs": epochs, "text": str(report)}


def main() -> None:
    # Nothing of the process's beginning is a twin's: cuBLAS's workspace, the first optimizer's kernels.
    frugal_alloc.enable()
    train(lambda inputs, targets, model: mean_square(model(inputs), targets))
    results = {}
    for name in sys.argv[1:]:
        kind, _, name_of = name.partition(":")
        if kind == "benign":
            results[name] = verdicts_of(benign_programs.all_programs()[name_of])
        else:
            function, _ = twins.all_twins()[name_of]
            results[name] = verdicts_of(lambda run=function, leaks=kind == "leaking": run(leaks))
    torch.cuda.synchronize()
    print("RESULTS" + json.dumps(results))


main()
