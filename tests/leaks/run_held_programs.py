"""Runs the programs that are declared with their holders, and prints what the report says of each as JSON."""

from __future__ import annotations

import gc
import json
import os
import sys

import frugal_alloc
from frugal_alloc import _native, _tracking

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
# What is in a folder of that name is an installed library.
import held_in_code  # noqa: F401  # importing declares the programs
import held_in_data  # noqa: F401
import held_in_torch  # noqa: F401
import held_programs


def main() -> None:
    frugal_alloc.enable()
    held_programs.train(lambda inputs, model: None)
    results = {}
    for name in sys.argv[1:] or held_programs.all_programs():
        gc.collect()
        _tracking.restart(_native.load())
        held_programs.all_programs()[name].run()
        report = frugal_alloc.report()
        results[name] = {"verdicts": report.verdicts, "notes": report.document["notes"], "text": str(report)}
    print("RESULTS" + json.dumps(results))


main()
