"""GPT-2 small, trained in bfloat16 on batches as long as their longest text."""

from __future__ import annotations

import random

from ..training import workloads

STEPS = 60


def build(shapes: random.Random) -> workloads.Step:
    return workloads.build("gpt2", shapes, quick=False)
