# ERROR: a result of the turn before stays with its graph
# ROOM: 250
# FIRST: .* before line \d+ of \S+ frees
# FITS-AFTER: as told
import torch


def main():
    scale = torch.ones(1, device="cuda", requires_grad=True)
    for _ in range(2):
        results = (torch.zeros(12 << 20, device="cuda") * scale).exp().sin()
        print(results.shape)


main()
