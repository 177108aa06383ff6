# ERROR: A checkpoint is loaded to the GPU while the model is there too: the weights are there twice.
# ROOM: 290
# RUNS: loading
# VERDICT: too_big
# REQUEST: 39
# CHANGE map_location: map_location="cuda" -> map_location="cpu"
# CHANGE move_later: detector = Detector().to("cuda") -> detector = Detector()
# CHANGE move_later: detector.eval() -> del state\ndetector.to("cuda").eval()
# BEST: map_location
# WORKS: map_location, move_later
import os
import tempfile

import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(1280, 2560), (2560, 3840), (3840, 3840), (3840, 2560), (2560, 1280)]
        self.trunk = nn.Sequential(*[nn.Linear(*size) for size in sizes])
        self.scores = nn.Linear(1280, 91)
        self.boxes = nn.Linear(1280, 364)

    def forward(self, x):
        x = self.trunk(x)
        return self.scores(x), self.boxes(x)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "detector.pth")
    # What an earlier run has saved.
    trained = Detector().to("cuda")
    torch.save(trained.state_dict(), path)
    del trained

    detector = Detector().to("cuda")
    state = torch.load(path, map_location="cuda")
    detector.load_state_dict(state)
detector.eval()
with torch.no_grad():
    scores, boxes = detector(torch.randn(64, 1280, device="cuda"))
print(scores.shape, boxes.shape)
