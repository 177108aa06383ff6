# ERROR: a caller's variable stays although nothing reads it any more
# ROOM: 250
# FIRST: del weights before line \d+ of \S+ frees
# FITS-AFTER: as told
import torch


def make():
    return torch.zeros(25 << 20, device="cuda")  # request


def main():
    weights = torch.zeros(25 << 20, device="cuda")
    model = weights.clone()
    return make(), model


main()
