# ERROR: nothing is freed by deleting what is shared with other processes, and to move it there takes as much again
# ROOM: 250
# SAYS: shared with other processes, there and here
# UNSAID: del |= None
import torch


def main():
    values = torch.zeros(25 << 20, device="cuda")
    handle = values.untyped_storage()._share_cuda_()
    return torch.zeros(45 << 20, device="cuda"), handle  # request


main()
