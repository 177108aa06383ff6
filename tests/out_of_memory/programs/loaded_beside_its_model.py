# ERROR: a checkpoint is read to the GPU, where the model is
# ROOM: 60, 75
# VERDICT: too_big
# FIRST: torch\.load\(\.\.\., map_location="cpu"\) at \S+:{request} leaves \d+\.\d\d MiB
# FITS-AFTER: torch.load(file) -> torch.load(file, map_location="cpu")
# UNSAID: fewer at a time|in \d+ pieces|half precision
import torch
from project.models import layers

file = "checkpoint.pt"
torch.save(layers(20).cuda().state_dict(), file)
model = layers(20).cuda()
checkpoint = torch.load(file)  # request
model.load_state_dict(checkpoint)
with torch.no_grad():
    model(torch.zeros(64, 256, device="cuda"))
