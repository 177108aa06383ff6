"""Calls every function of torch.cuda.memory and torch.accelerator.memory; run as a program with "native" or "ours".

It prints a line of JSON: for each function what it returned or did, as far as that does not depend on the allocator
(``same``), and the keys and types of the rest (``shape``). test_same_as_native.py compares two runs.
"""

from __future__ import annotations

import json
import sys
import warnings

import memory_calls_changes
import memory_calls_figures
import memory_calls_history
import torch
from memory_call_results import CALLS, MIB, SAME, SHAPE, empty
from torch.cuda import memory

# Importing a module declares its calls, which are made in this order.
MODULES = (memory_calls_figures, memory_calls_changes, memory_calls_history)
# Helpers of torch's modules that do nothing with memory.
NOT_CALLED = ("_augment_memory_snapshot_stack_traces", "_recurse_add_to_result", "accelerator._flatten_stats")


def functions() -> list[str]:
    """All functions and classes that the two modules define."""
    named = []
    for module, prefix in ((memory, ""), (torch.accelerator.memory, "accelerator.")):
        named += [
            prefix + name
            for name, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == module.__name__
        ]
    return [name for name in named if name not in NOT_CALLED]


def main() -> None:
    if sys.argv[1] == "ours":
        import frugal_alloc

        frugal_alloc.enable()
    warnings.simplefilter("ignore", FutureWarning)
    held = [empty(size) for size in (100, 1_000_000, MIB, MIB + 1, 20 * MIB)]
    del held[2]
    for module in MODULES:
        for function in dict.fromkeys(CALLS.values()):
            if function.__module__ == module.__name__:
                function()
    print(json.dumps({"same": SAME, "shape": SHAPE, "functions": functions(), "called": list(CALLS)}))


if __name__ == "__main__":
    main()
