# ERROR: three lines hold memory, the largest of them comes first, and the request has its line and code
# ROOM: 1400
# VERDICT: too_big
# SAYS: Too big: 1\.31 GiB of live tensors and this request need 130\.00 MiB more than there is
# SAYS: Request 256\.00 MiB at \S*request_too_big\.py:{request} in main large = torch\.ones\(
# SAYS: 1\.00 GiB \S+:{first} .* 200\.00 MiB \S+:{second} .* 50\.00 MiB \S+:{third}
# UNSAID: Leak
import torch


def main():
    small = torch.empty(50 << 20, dtype=torch.uint8, device="cuda")  # third
    largest = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")  # first
    middle = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")  # second
    large = torch.ones(64 << 20, device="cuda")  # request
    return small, middle, largest, large


main()
