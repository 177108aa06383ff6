# ERROR: a notebook's Out keeps the values of cells' last lines
# ROOM: 150
# FIRST: `Out` keeps the values of cells' last lines \(96\.00 MiB\): end such a line
# FITS-AFTER: torch.zeros(12 << 20, device='cuda')" -> print(torch.zeros(12 << 20, device='cuda'))"
import sys
import types

import torch

cells = [
    "Out = _oh = {}",
    "Out[2] = _2 = torch.zeros(12 << 20, device='cuda')",
    "Out[3] = _3 = _ = torch.zeros(12 << 20, device='cuda')",
    "large = torch.zeros(25 << 20, device='cuda')",
]
notebook = {"torch": torch, "__name__": "__main__"}
for number, cell in enumerate(cells, 1):
    if number == len(cells):
        # What IPython 8 and 9 have beside it, which %reset -f out leaves.
        shell = types.SimpleNamespace(
            user_ns_hidden={name: notebook[name] for name in ("_2", "_3", "_")},
            displayhook=types.SimpleNamespace(_=notebook["_3"]),
            last_execution_result=types.SimpleNamespace(result=notebook["_3"]),
        )
        sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda shell=shell: shell)
    exec(compile(cell, f"<ipython-input-{number}-0123456789ab>", "exec"), notebook)
