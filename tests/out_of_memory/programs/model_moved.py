# ERROR: a model does not fit
# ROOM: 140, 180
# FIRST: half precision \(the model
# FITS-AFTER: torch.float32 -> torch.bfloat16
import torch
from project.models import layers

dtype = torch.float32
model = layers(6, 1024).to(dtype).cuda()
with torch.no_grad():
    model(torch.zeros(4, 1024, device="cuda", dtype=dtype))
