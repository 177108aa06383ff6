# ERROR: losses are kept with their graphs
# ROOM: 100, 200
# FIRST: `kept` keeps \d results with their graphs: at \S+:{kept} keep \.detach\(\) of each
# FITS-AFTER: append(loss) -> append(loss.detach())
import torch

scale = torch.ones(1, device="cuda", requires_grad=True)
kept = []
for _ in range(20):
    loss = (torch.zeros(4 << 20, device="cuda") * scale).exp().sum()
    kept.append(loss)  # kept
