# LEAK: a server keeps the first part of each request's cache for a request that begins alike, and lets none go
# HOLDER: prefixes
# REMEDY: bound it | expect_growth
import frugal_alloc
import torch


class Server:
    def __init__(self):
        self.prefixes = {}

    def answer(self, request):
        layers = [torch.zeros(2, 8, 32 + request, 64, device="cuda") for _ in range(4)]
        for _ in range(4):
            new = torch.zeros(2, 8, 1, 64, device="cuda")
            layers = [torch.cat([layer, new], dim=2) for layer in layers]
        self.prefixes[request] = torch.stack([layer[:, :, :32] for layer in layers])  # leak


def main():
    server = Server()
    for request in range(80):
        server.answer(request)
        if request % 5 == 4:
            frugal_alloc.epoch_end()


main()
