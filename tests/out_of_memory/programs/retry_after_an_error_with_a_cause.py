# ERROR: a helper raises an error of its own, which keeps the first one and what it keeps
# ROOM: 250
# FIRST: move line {again} of \S+ out of its `except` block, .* frees 200\.00 MiB, .* of (work|attempt)\(\)
# FITS-AFTER: work(20)  # again -> is_done = False
# FITS-AFTER: print("end") -> work(20)
import torch


class TooLarge(Exception):
    pass


def work(mib):
    parts = [torch.zeros(mib << 18, device="cuda") for _ in range(2)]
    return parts, torch.zeros(mib << 18, device="cuda")


def attempt(mib):
    try:
        work(mib)
    except RuntimeError as error:
        raise TooLarge(mib) from error


try:
    attempt(100)
except TooLarge:
    work(20)  # again
print("end")
