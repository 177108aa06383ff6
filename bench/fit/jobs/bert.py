"""BERT large, fine-tuned for two classes on sequences of 512 tokens, saving memory as a guide of Hugging Face says."""

from __future__ import annotations

import contextlib

import torch
from transformers import Adafactor, BertConfig, BertForSequenceClassification

STEPS = 3


def load() -> BertForSequenceClassification:
    config = BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, num_labels=2
    )
    # The plain attention, which keeps its scores: it is what transformers had when the guide was written.
    config._attn_implementation = "eager"
    with torch.device("cuda"):
        return BertForSequenceClassification(config)


def train(
    batch: int = 4, accumulate: int = 1, checkpoint: bool = False, fp16: bool = False, adafactor: bool = False
) -> None:
    model = load()
    if checkpoint:
        model.gradient_checkpointing_enable()
    model.train()
    if adafactor:
        optimizer = Adafactor(model.parameters(), lr=5e-5, scale_parameter=False, relative_step=False)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, foreach=False)
    scaler = torch.amp.GradScaler(enabled=fp16)
    for _ in range(STEPS):
        for _ in range(accumulate):
            tokens = torch.randint(100, 30000, (batch, 512)).cuda()
            labels = torch.randint(0, 2, (batch,)).cuda()
            with torch.autocast("cuda", torch.float16) if fp16 else contextlib.nullcontext():
                loss = model(input_ids=tokens, labels=labels).loss / accumulate
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        # The Trainer of 2022 kept the gradients, as zeros.
        optimizer.zero_grad(set_to_none=False)
