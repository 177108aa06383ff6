"""Runs tests of a file as tools/acceptance --faults has its worker do: fail_calls.py RUNS SEED CLASS.TEST..."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools" / "pytorch_tests")]

import frugal_alloc  # noqa: E402
import worker  # noqa: E402
from failing_calls import FailingCalls  # noqa: E402


def main() -> None:
    runs, seed, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        frugal_alloc.enable(check="full", report_dir=folder)
        module = worker.load(HERE / "ordinary_tests.py")
        failing = FailingCalls(worker.run, int(runs), seed, Path(folder), tell=lambda report: None)
        print("REPORTS" + json.dumps([failing.run(module, name) for name in names]))


if __name__ == "__main__":
    main()
