# LEAK: gradient norms are computed with create_graph and kept as tensors, by formulas without a module
# HOLDER: norms
# REMEDY: .item() | detach
import torch


def energy(x, weight):
    return (x @ weight).tanh().square().sum()  # leak


def main():
    weight = torch.randn(256, 256, device="cuda")
    norms = []
    for sample in range(80):
        x = torch.rand(64, 256, device="cuda", requires_grad=True)  # leak
        (slope,) = torch.autograd.grad(energy(x, weight), x, create_graph=True)  # leak
        norms.append(slope.norm())  # leak
    print(len(norms))


main()
