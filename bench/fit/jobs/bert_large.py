"""Fine-tunes BERT large for two classes on sequences of 512 tokens, saving memory as a guide of Hugging Face says.

Attention is the plain one, which keeps its scores, since that is what transformers had when the guide was written.
"""

from __future__ import annotations

import argparse
import contextlib

import figures
import torch
from transformers import Adafactor, BertConfig, BertForSequenceClassification

STEPS = 3
LENGTH = 512


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--adafactor", action="store_true")
    parser.add_argument("--load-only", action="store_true")
    return parser.parse_args()


def large() -> BertForSequenceClassification:
    config = BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, num_labels=2
    )
    config._attn_implementation = "eager"
    with torch.device("cuda"):
        return BertForSequenceClassification(config)


def optimizer_of(model: torch.nn.Module, adafactor: bool) -> torch.optim.Optimizer:
    parameters = model.parameters()
    if adafactor:
        return Adafactor(parameters, lr=5e-5, scale_parameter=False, relative_step=False)
    return torch.optim.AdamW(parameters, lr=5e-5, foreach=False)


def train(model: BertForSequenceClassification, options: argparse.Namespace) -> None:
    if options.checkpoint:
        model.gradient_checkpointing_enable()
    model.train()
    optimizer = optimizer_of(model, options.adafactor)
    scaler = torch.amp.GradScaler(enabled=options.fp16)
    for _ in range(STEPS):
        for _ in range(options.accumulate):
            tokens = torch.randint(100, 30000, (options.batch, LENGTH)).cuda()
            labels = torch.randint(0, 2, (options.batch,)).cuda()
            with torch.autocast("cuda", torch.float16) if options.fp16 else contextlib.nullcontext():
                loss = model(input_ids=tokens, labels=labels).loss / options.accumulate
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        # The Trainer of 2022 kept the gradients, as zeros.
        optimizer.zero_grad(set_to_none=False)


if __name__ == "__main__":
    options = parse()
    model = large()
    if not options.load_only:
        train(model, options)
    figures.report()
