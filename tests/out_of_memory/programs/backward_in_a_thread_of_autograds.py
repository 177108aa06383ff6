# ERROR: a backward pass asks in a thread of autograd's, which has the node's name and the forward's line
# ROOM: 600
# SAYS: Request \d+\.\d\d MiB by \w+Backward0, the backward of \S+:{request} in <module>
import torch

values = torch.zeros(64 << 20, device="cuda", requires_grad=True)
result = values.exp()  # request
result.sum().backward()
