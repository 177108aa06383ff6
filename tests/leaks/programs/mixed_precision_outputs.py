# LEAK: half-precision outputs of a training with autocast are kept
# HOLDER: logits_of_steps
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
loader = DataLoader(TensorDataset(torch.rand(128, 256), torch.randint(0, 1000, (128,))), batch_size=32)
logits_of_steps = []
for epoch in range(10):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(x.cuda())  # leak
            loss = nn.functional.cross_entropy(logits, y.cuda())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        logits_of_steps.append(logits.detach())
