# ERROR: a generator that was not read to its end keeps its variables
# ROOM: 250
# FIRST: del batches before line \d+ of \S+ frees 200\.00 MiB
# FITS-AFTER: as told
import torch


def made_of(parts):
    table = torch.zeros(100 << 18, device="cuda")
    rows = [torch.zeros(100 << 18, device="cuda")]
    for _ in range(parts):
        yield table.sum() + rows[0].sum()


def main():
    batches = made_of(3)
    first = next(batches)
    return first, torch.zeros(100 << 18, device="cuda")  # request


main()
