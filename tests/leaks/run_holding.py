"""Runs the programs of holding.py, and prints what the report says of each as JSON."""

from __future__ import annotations

import gc
import json
import os
import sys

import frugal_alloc
from frugal_alloc import _native, _tracking

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
# What is in a folder of that name is an installed library.
import holding


def main() -> None:
    frugal_alloc.enable()
    holding.train(lambda inputs, model: None)
    results = {}
    for name in sys.argv[1:] or holding.all_programs():
        gc.collect()
        _tracking.restart(_native.load())
        holding.all_programs()[name].run()
        report = frugal_alloc.report()
        results[name] = {"verdicts": report.verdicts, "notes": report.document["notes"], "text": str(report)}
    print("RESULTS" + json.dumps(results))


main()
