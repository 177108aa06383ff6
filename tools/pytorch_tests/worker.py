"""Runs tests of one of PyTorch's test files in this process, and reports each as it starts and ends.

    worker.py DESCRIPTOR ours|native FILE CLASS.TEST...

Reports go to the open file descriptor as lines of JSON: the name of the test alone as it starts; then with "outcome"
(passed, failed, skipped or missing), "reason" (one line) and "seconds".
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def lend_names() -> None:
    """Gives torch the names under which test files of other versions know what it has."""
    import torch
    from torch.testing._internal import common_utils

    # Moved into common_utils by the main branch after 2.11.
    if not hasattr(common_utils, "TEST_CUDAMALLOCASYNC"):
        common_utils.TEST_CUDAMALLOCASYNC = torch.cuda.get_allocator_backend() == "cudaMallocAsync"
    # Its name in 2.4.
    if not hasattr(torch._C, "_cuda_endAllocateCurrentStreamToPool"):
        torch._C._cuda_endAllocateCurrentStreamToPool = torch._C._cuda_endAllocateToPool
    # There for a while on the main branch.
    if not hasattr(torch.accelerator, "generate_graph_pool_handle"):
        torch.accelerator.generate_graph_pool_handle = torch.cuda.graph_pool_handle
    if not hasattr(torch.cuda.MemPool, "allocator"):
        lend_allocator_of_pools(torch.cuda.MemPool)


def lend_allocator_of_pools(pools: type) -> None:
    """Lets a MemPool tell which allocator it was made with."""
    make = pools.__init__

    def make_and_note(self: object, allocator: object = None, *args: object, **options: object) -> None:
        make(self, allocator, *args, **options)
        self.allocator = allocator

    pools.__init__ = make_and_note
    pools.allocator = None


def load(file: Path) -> types.ModuleType:
    """The test file as a module, as if it had been started in its own folder."""
    sys.path.insert(0, str(file.parent))
    sys.argv = [str(file)]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def draw_without_download(folder: Path) -> None:
    """Lets PyTorch's flame graphs do without the script that it downloads: a stand-in writes the stacks as they are."""
    from torch.cuda import _memory_viz

    if (Path.home() / ".cache" / "flamegraph.pl").exists():
        return
    script = folder / "flamegraph"
    script.write_text("#!/bin/sh\nexec cat\n")
    script.chmod(0o755)
    _memory_viz.format_flamegraph.__defaults__ = (str(script),)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def first_line_of_error(trace: str) -> str:
    """The error itself: the first line of a traceback, from its end, that is not indented and not PyTorch's hint."""
    lines = trace.split("\nTo execute this test, run the following")[0].rstrip().splitlines()
    for line in reversed(lines):
        name = line.split(":")[0]
        if line and not line[0].isspace() and name.replace(".", "").replace("_", "").isalnum():
            return line.strip()
    return last_line(trace)


def outcome(result: unittest.TestResult) -> tuple[str, str]:
    bad = result.errors + result.failures
    if bad:
        print(*(trace for _, trace in bad), sep="\n", file=sys.stderr, flush=True)
        return "failed", first_line_of_error(bad[0][1])
    if result.unexpectedSuccesses:
        return "failed", "passes although PyTorch expects it to fail"
    if result.skipped:
        return "skipped", last_line(result.skipped[0][1])
    return ("passed", "") if result.testsRun else ("missing", "nothing was run")


def run(module: types.ModuleType, name: str) -> dict[str, object]:
    start = time.monotonic()
    case, _, method = name.partition(".")
    if not hasattr(getattr(module, case, None), method):
        return {"test": name, "outcome": "missing", "reason": f"{module.__file__} has no {name}", "seconds": 0.0}
    suite = unittest.TestSuite([getattr(module, case)(method)])
    result = unittest.TestResult()
    suite.run(result)
    kind, reason = outcome(result)
    return {"test": name, "outcome": kind, "reason": reason, "seconds": time.monotonic() - start}


def main() -> None:
    descriptor, allocator, file, *names = sys.argv[1:]
    # Ends with the program that waits for the reports, however that ends.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with os.fdopen(int(descriptor), "w", buffering=1) as reports, tempfile.TemporaryDirectory() as folder:

        def tell(report: dict[str, object]) -> None:
            reports.write(json.dumps(report) + "\n")

        if allocator == "ours":
            import frugal_alloc

            frugal_alloc.enable()
        lend_names()
        module = load(Path(file).resolve())
        draw_without_download(Path(folder))
        for name in names:
            tell({"test": name})
            tell(run(module, name))
            if allocator == "ours":
                # Where a test has turned it off, PyTorch's allocator would serve all that follow.
                frugal_alloc._native.load().follow_settings("expandable_segments:True")


if __name__ == "__main__":
    main()
