"""Trains a small language model with fully sharded data parallelism, in the ways that people compare.

torchrun --standalone --nproc-per-node 2 fsdp.py --batch 8
"""

from __future__ import annotations

import argparse
import functools
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

WORDS = 8192
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# What a policy keeps of a block in the forward pass; the rest is computed again in the backward pass.
KEPT = {
    "all": (),
    "matmuls": (torch.ops.aten.mm.default, torch.ops.aten.addmm.default),
    "attention": (
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops.aten._scaled_dot_product_efficient_attention.default,
    ),
}


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.projections(self.first(x)).unflatten(-1, (3, -1, 64)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Model(nn.Module):
    def __init__(self, layers: int, width: int, policies: list[str]) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.policies = policies

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for block, policy in zip(self.blocks, self.policies, strict=True):
            x = block(x) if policy == "none" else checkpoint(block, x, use_reentrant=False, context_fn=contexts(policy))
        return self.head(x)


def contexts(policy: str):
    def decide(context, operator, *arguments, **options) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if operator in KEPT[policy] else CheckpointPolicy.PREFER_RECOMPUTE

    return functools.partial(create_selective_checkpoint_contexts, decide)


def mesh_of(text: str, ranks: int) -> DeviceMesh:
    """ "2x2": two replicas, each of two ranks that share the model out among them."""
    replicas, _, shards = text.partition("x")
    if shards:
        return init_device_mesh("cuda", (int(replicas), int(shards)), mesh_dim_names=("replicate", "shard"))
    return init_device_mesh("cuda", (ranks,))


def shard(model: Model, options: argparse.Namespace, mesh: DeviceMesh) -> None:
    reshard = {"yes": True, "no": False}.get(options.reshard)
    precision = MixedPrecisionPolicy(DTYPES[options.compute], DTYPES[options.reduce])
    share = functools.partial(
        fully_shard,
        mesh=mesh,
        mp_policy=precision,
        reshard_after_forward=int(options.reshard) if reshard is None else reshard,
        offload_policy=CPUOffloadPolicy() if options.offload else OffloadPolicy(),
    )
    if options.wrap == "block":
        for block in model.blocks:
            share(block)
    share(model)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--wrap", choices=("block", "model"), default="block")
    parser.add_argument(
        "--checkpoint", default="none", help="none, all, matmuls or attention; or one,other of two halves"
    )
    parser.add_argument("--compute", choices=DTYPES, default="bfloat16")
    parser.add_argument("--reduce", choices=DTYPES, default="bfloat16")
    parser.add_argument("--mesh", default="", help="2x2: two replicas of two shards")
    parser.add_argument("--reshard", default="yes", help="after forward: yes, no, or over so many ranks")
    parser.add_argument("--offload", action="store_true", help="parameters, gradients and optimizer on the CPU")
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    first, _, other = options.checkpoint.partition(",")
    half = options.layers // 2
    with torch.device("cuda"):
        model = Model(options.layers, options.width, [first] * half + [other or first] * (options.layers - half))
    shard(model, options, mesh_of(options.mesh, torch.distributed.get_world_size()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(3):
        tokens = torch.randint(WORDS, (options.batch, options.length + 1), device="cuda")
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(parse())
