"""What the tests of mapped pools share: the setting, and how their programs begin."""

from __future__ import annotations

MAPPED = {"FRUGAL_ALLOC_CONF": "pools:mapped"}
START = """
import torch
MIB, KIB = 1 << 20, 1 << 10
def empty(size): return torch.empty(size, dtype=torch.uint8, device="cuda")

def captured(function, pool=None):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = function()
    return graph, result
"""
