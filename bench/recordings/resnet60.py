"""ResNet-50, trained in bfloat16 on batches of variable size, of images of variable size."""

from __future__ import annotations

import random

from ..training import workloads

STEPS = 60


def build(shapes: random.Random) -> workloads.Step:
    return workloads.build("resnet50", shapes, quick=False)
