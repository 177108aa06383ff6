# ERROR: a loop's variables of the turn before stay while the next turn makes its own
# ROOM: 250
# FIRST: .* before line \d+ of \S+ frees
# FITS-AFTER: as told
import torch


def main():
    for _ in range(3):
        values = torch.zeros(25 << 20, device="cuda")
        copy = values + 1
        print(copy.sum())


main()
