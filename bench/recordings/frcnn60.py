"""Faster R-CNN with a pyramid over ResNet-50, trained on images of several scales with any number of boxes."""

from __future__ import annotations

import random

from ..training import workloads

STEPS = 60


def build(shapes: random.Random) -> workloads.Step:
    return workloads.build("fasterrcnn", shapes, quick=False)
