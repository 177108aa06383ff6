# ERROR: a variable's new value is made while the old one is there
# ROOM: 150
# FIRST: .* before line \d+ of \S+ frees
# FITS-AFTER: as told
import torch


def main():
    values = torch.zeros(25 << 20, device="cuda")
    print(values.shape)
    values = torch.zeros(25 << 20, device="cuda")  # request


main()
