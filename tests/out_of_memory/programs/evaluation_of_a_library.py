# ERROR: a library gathers the predictions of an evaluation on the GPU unless a setting of it says otherwise
# ROOM: 250, 500
# FIRST: eval_accumulation_steps=(\d+) in
# FITS-AFTER: gathering.Arguments() -> gathering.Arguments(eval_accumulation_steps=\1)
import gathering
import torch
from project.models import WIDTH, WORDS

trainer = gathering.Trainer(torch.nn.Linear(WIDTH, WORDS).cuda(), gathering.Arguments())
trainer.evaluate([torch.zeros(256, WIDTH, device="cuda") for _ in range(32)])
