# ERROR: too many rows at once, without gradients
# ROOM: 160, 200, 240
# FIRST: fewer at a time: .* (\d+) would fit
# FITS-AFTER: batch = 1 << 15 -> batch = \1
# THEN: half precision \(the model
# FITS-AFTER: torch.float32 -> torch.bfloat16
# UNSAID: no_grad
import torch
from project.models import WIDTH, layers

batch = 1 << 15
dtype = torch.float32
model = layers(4).cuda().to(dtype)
with torch.no_grad():
    model(torch.zeros(batch, WIDTH, device="cuda", dtype=dtype))
