# ERROR: training goes on from a checkpoint, whose weights a variable still has
# ROOM: 190
# VERDICT: too_big
# FIRST: torch\.load\(\.\.\., map_location="cpu"\) at \S*resumed\.py:{kept} leaves 20\.\d\d MiB on the host
# FITS-AFTER: map_location="cuda" -> map_location="cpu"
# THEN: weights = None before line \d+ of \S*resumed\.py frees 20\.\d\d MiB
# FITS-AFTER: as told
import torch
from project.models import layers, optimizer_of

file, earlier = "checkpoint.pt", layers(10)
done = optimizer_of(earlier)
earlier(torch.zeros(2, 256)).sum().backward()
done.step()
torch.save({"model": earlier.state_dict(), "optimizer": done.state_dict()}, file)
del earlier, done

model = layers(10).cuda()
checkpoint = torch.load(file, map_location="cuda")  # kept
weights = checkpoint["model"]
model.load_state_dict(weights)
optimizer = optimizer_of(model)
optimizer.load_state_dict(checkpoint["optimizer"])
checkpoint = None
for _ in range(3):
    loss = model(torch.zeros(1200, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
