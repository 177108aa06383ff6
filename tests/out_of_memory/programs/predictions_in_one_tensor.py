# ERROR: predictions are gathered on the GPU, in a tensor that grows
# ROOM: 250, 700
# FIRST: `everything` on the host
# FITS-AFTER: device="cuda")  # grows -> device="cpu")
# FITS-AFTER: everything, result) -> everything, result.cpu())
# FIRST: \S+: a tensor is concatenated to what was before
# FITS-AFTER: device="cuda")  # grows -> device="cpu")
# FITS-AFTER: everything, result) -> everything, result.cpu())
import torch
from project.models import WIDTH, WORDS

model = torch.nn.Linear(WIDTH, WORDS).cuda()
everything = torch.zeros(0, WORDS, device="cuda")  # grows
with torch.no_grad():
    for _ in range(16):
        result = model(torch.zeros(256, WIDTH, device="cuda"))
        everything = torch.cat((everything, result))
