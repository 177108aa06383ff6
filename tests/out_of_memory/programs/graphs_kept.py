# ERROR: CUDA graphs keep what no tensor uses
# ROOM: 450
# SAYS: Held by pools: CUDA graphs and MemPools keep 306\.00 MiB
# SAYS: 102\.00 MiB CUDA graphs of \S+:{captured}: 0 bytes allocated, .*; resetting them gives back 102\.00 MiB
# SAYS: 3\d\d\.\d\d MiB free, of which pools keep 306\.00 MiB\.
# FIRST: reset\(\) the CUDA graphs of \S+, or let go of them, if they are not needed: 306\.00 MiB come back
# FITS-AFTER: resets = False -> resets = True
import torch

resets = False


def main():
    graphs = [torch.cuda.CUDAGraph() for _ in range(3)]
    for graph in graphs:
        with torch.cuda.graph(graph):  # captured
            torch.zeros(25 << 20, device="cuda").sum()
    if resets:
        for graph in graphs:
            graph.reset()
    return torch.zeros(75 << 20, device="cuda"), graphs


main()
