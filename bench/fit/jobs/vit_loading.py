"""Puts torchvision's vit_l_16 on the GPU in half precision: moved and then converted, or made there as it is to be."""

from __future__ import annotations

import argparse

import figures
import torch
from torchvision.models import vit_l_16

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--at-once", action="store_true")
    if parser.parse_args().at_once:
        torch.set_default_dtype(torch.float16)
        with torch.device("cuda"):
            model = vit_l_16()
    else:
        model = vit_l_16()
        model.to("cuda").to(torch.float16)
    figures.report()
