# ERROR: predictions are gathered on the GPU
# ROOM: 250, 500, 700
# VERDICT: leak
# FIRST: \S+: list 'outputs' .* keeps every one of them: store .*\.cpu\(\)
# FITS-AFTER: append(result) -> append(result.cpu())
# THEN: `outputs` holds \d+ tensors on the GPU .* keep them on the host \(\.cpu\(\)\)
# THEN: `outputs` on the host
import torch
from project.models import WIDTH, WORDS

model = torch.nn.Linear(WIDTH, WORDS).cuda()
outputs = []
with torch.no_grad():
    for _ in range(16):
        result = model(torch.zeros(256, WIDTH, device="cuda"))
        outputs.append(result)
        del result
    print(torch.cat(outputs).shape)
