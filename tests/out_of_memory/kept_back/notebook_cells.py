# ERROR: Cells of a notebook: what the exploration of an earlier cell made is still in globals as training begins.
# ROOM: 960
# RUNS: training
# VERDICT: leak
# HOLDER: embeddings, similarity
# REQUEST: 39
# LARGEST: 0
# CHANGE delete: as told
# CHANGE no_grad: # Cell 2 -> torch.set_grad_enabled(False)
# CHANGE no_grad: # Cell 4 -> torch.set_grad_enabled(True)
# CHANGE batch: BATCH = 2048 -> BATCH = {n}
# CHANGE host: embeddings = encoder(recipes) -> embeddings = encoder(recipes).detach().cpu()
# BEST: delete
# WORKS: delete, no_grad, host
import torch
from torch import nn

# Cell 1
BATCH = 2048
recipes = torch.randn(11000, 600).cuda()
encoder = nn.Sequential(nn.Linear(600, 2400), nn.GELU(), nn.Linear(2400, 2400), nn.GELU(), nn.Linear(2400, 320))
encoder = encoder.cuda()

# Cell 2
embeddings = encoder(recipes)
embeddings = embeddings / embeddings.norm(dim=1, keepdim=True)
similarity = embeddings @ embeddings.T

# Cell 3
closest = similarity.detach().fill_diagonal_(0).max(1)
print("closest of the first:", closest.indices[:5].tolist())

# Cell 4
decoder = nn.Sequential(nn.Linear(320, 2400), nn.GELU(), nn.Linear(2400, 600)).cuda()
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)
for epoch in range(2):
    for batch in recipes.split(BATCH):
        noisy = batch + 0.1 * torch.randn_like(batch)
        loss = nn.functional.mse_loss(decoder(encoder(noisy)), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())
