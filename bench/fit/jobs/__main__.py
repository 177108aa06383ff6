"""``python -m bench.fit.jobs MODULE.FUNCTION ARGUMENTS``: carries out a job with these keywords, as JSON.

At its end it prints one line of JSON: what PyTorch and the driver say of its memory.
"""

from __future__ import annotations

import importlib
import json
import sys

import torch


def main(job: str, arguments: str) -> None:
    module, function = job.split(".")
    getattr(importlib.import_module(f"bench.fit.jobs.{module}"), function)(**json.loads(arguments))
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    figures = {
        "allocated": torch.cuda.memory_allocated(),
        "max_allocated": torch.cuda.max_memory_allocated(),
        "max_reserved": torch.cuda.max_memory_reserved(),
        "in_use": total - free,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
