# ERROR: a small model learns what a larger one makes of the words, and the words
# ROOM: 220, 450, 500, 900
# FIRST: fewer at a time: .* at most \d+, as the backward that follows takes more
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 64 -> batch = \1
import torch
from project.models import Language, optimizer_of
from torch import nn

batch = 64
teacher, student = Language().cuda(), Language().cuda()
optimizer = optimizer_of(student, "SGD")
for _ in range(2):
    words = torch.zeros(batch, 16, dtype=torch.long, device="cuda")
    with torch.no_grad():
        wanted = teacher(words)
    made = student(words)
    soft = nn.functional.kl_div(
        nn.functional.log_softmax(made / 2, -1), nn.functional.softmax(wanted / 2, -1), reduction="batchmean"
    )
    loss = nn.functional.cross_entropy(made.flatten(0, 1), words.flatten()) + soft
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
