# ERROR: an evaluation records gradients
# ROOM: 80, 120, 160, 200
# FIRST: call `?\w+`?.* under torch\.no_grad\(\)
# FITS-AFTER: torch.enable_grad() -> torch.no_grad()
import torch
from project.models import WIDTH, layers

model = layers().cuda().eval()
for _ in range(2):
    with torch.enable_grad():
        print(model(torch.zeros(4096, WIDTH, device="cuda")).shape)
