"""Puts GPT-2 XL's weights on the GPU: once, beside a state dictionary that is there too, or one by one."""

from __future__ import annotations

import argparse

import figures
import torch
from gpt import Gpt, Shape


def main(how: str) -> None:
    with torch.device("cuda"):
        model = Gpt(Shape(width=1600, layers=48, heads=25, context=1024, bias=True))
    if how == "twice":
        state = {name: torch.empty_like(tensor) for name, tensor in model.state_dict().items()}
        model.load_state_dict(state)
    elif how == "one-by-one":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.empty(parameter.shape).to("cuda"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=("once", "twice", "one-by-one"))
    main(parser.parse_args().how)
    figures.report()
