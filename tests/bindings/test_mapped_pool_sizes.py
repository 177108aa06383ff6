"""How much memory mapped pools of CUDA graphs (pools:mapped) hold beside those of PyTorch's own allocator."""

from __future__ import annotations

import statistics

from binding_helpers import run_well, simulated_gpu
from mapped_pools import MAPPED, START

SIX_SHAPES = """
# As torch.compile's reduce-overhead: one pool, each shape goes back to where the first began.
pool, graphs = torch.cuda.graph_pool_handle(), []
for rows in (512, 384, 320, 200, 96, 40):
    def layers():
        hidden = empty(rows * 40 * KIB)
        for layer in range(4):
            wide = empty(rows * 130 * KIB)
            hidden = empty(rows * 40 * KIB + 512 * layer)
        return empty(rows * KIB)
    graphs.append(captured(layers, pool))
"""
TWENTY_BATCHES = """
pool, graphs = torch.cuda.graph_pool_handle(), []
for batch in (256, 248, 240, 224, 192, 160, 144, 128, 112, 96, 80, 64, 48, 32, 24, 16, 8, 4, 2, 1):
    def layers():
        hidden = empty(batch * 64 * KIB)
        for layer in range(8):
            wide, narrow = empty(batch * (24, 96, 7, 200)[layer % 4] * KIB), empty(batch * 33 * KIB + 512 * layer)
            hidden = empty(batch * 64 * KIB)
        return hidden
    graphs.append(captured(layers, pool))
"""
CALLABLES = """
layers = [torch.nn.Linear(1024, 1024).cuda() for _ in range(3)]
inputs = tuple((torch.randn(3000, 1024, device="cuda", requires_grad=True),) for _ in layers)
graphs = torch.cuda.make_graphed_callables(tuple(layers), inputs)
"""
TRAIN_EVALUATE_TRAIN = """
def train(step):
    activations = [empty((20 + (step * 7 + i * 3) % 11) * MIB) for i in range(20)]
    while activations:
        activations.pop()

def evaluate():
    for _ in range(3):
        empty(49 * MIB)
    return empty(11 * MIB)

weights = [empty(16 * MIB) for _ in range(16)]
for step in range(4):
    train(step)
graphs = [captured(evaluate) for _ in range(3)]
for step in range(4):
    train(step)
"""
FAILED_CAPTURES = """
def fails():
    values = empty(9 * MIB), empty(300 * KIB)
    torch.cuda.synchronize()

graphs = []
for _ in range(3):
    try:
        captured(fails)
    except RuntimeError:
        pass
    graphs.append(captured(lambda: (empty(9 * MIB), empty(300 * KIB))))
"""
POOLS = """
reserved = {}
for segment in torch.cuda.memory_snapshot():
    if segment["segment_pool_id"] != (0, 0):
        reserved[segment["segment_pool_id"]] = reserved.get(segment["segment_pool_id"], 0) + segment["total_size"]
report(held=sum(reserved.values()))
"""
PROGRAMS = {
    "six shapes": SIX_SHAPES,
    "twenty batches": TWENTY_BATCHES,
    "graphed callables": CALLABLES,
    "train, evaluate, train": TRAIN_EVALUATE_TRAIN,
    "failed captures": FAILED_CAPTURES,
}


@simulated_gpu
def test_mapped_pools_hold_less_than_pytorchs_own():
    shares = []
    for name, program in PROGRAMS.items():
        code = START + program + POOLS
        ours = run_well("import frugal_alloc; frugal_alloc.enable()\n" + code, **MAPPED)["held"]
        native = run_well(code)["held"]
        assert 0 < ours <= native, name
        shares.append(ours / native)
    assert statistics.mean(shares) <= 0.9, shares
