# ERROR: a list of tensors stays although nothing reads it any more
# ROOM: 150
# FIRST: del parts before line \d+ of \S+ frees
# FITS-AFTER: as told
import torch


def main():
    parts = [torch.zeros(12 << 20, device="cuda") for _ in range(2)]
    mean = sum(part.sum() for part in parts)
    return torch.zeros(25 << 20, device="cuda"), mean  # request


main()
