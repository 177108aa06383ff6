"""A small training to look at with ``frugal-alloc top``; with --port it also serves its figures to Prometheus.

frugal-alloc simulate --gpu "RTX 4090" -- python examples/monitoring/train.py --keep-outputs
"""

from __future__ import annotations

import argparse
import sys

import frugal_alloc
import torch


def train(epochs: int, keeps_outputs: bool) -> object:
    """Returns what is still needed."""
    model = torch.nn.Sequential(torch.nn.Linear(4096, 16384), torch.nn.ReLU(), torch.nn.Linear(16384, 4096)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    kept = []
    for epoch in range(epochs):
        for _ in range(4):
            optimizer.zero_grad()
            outputs = model(torch.ones(1024 + 128 * (epoch % 3), 4096, device="cuda"))
            outputs.square().mean().backward()
            optimizer.step()
        if keeps_outputs:
            kept.append(outputs.detach())
        frugal_alloc.epoch_end()
    return model, optimizer, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--keep-outputs", action="store_true", help="leak")
    parser.add_argument("--wait", action="store_true", help="then wait until the standard input ends, to be looked at")
    parser.add_argument("--port", type=int, help="serve the figures to Prometheus at this port")
    options = parser.parse_args()
    if options.port:
        from frugal_alloc.integrations import prometheus
        from prometheus_client import start_http_server

        prometheus.register()
        start_http_server(options.port)
    frugal_alloc.enable()
    trained = train(options.epochs, options.keep_outputs)
    if options.wait:
        print("waiting", flush=True)
        sys.stdin.read()
    del trained


if __name__ == "__main__":
    main()
