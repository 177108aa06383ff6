# ERROR: A search for the largest batch keeps the exceptions, to print them later, and with them each failed attempt.
# ROOM: 1680
# RUNS: other
# VERDICT: leak
# HOLDER: failures
# REQUEST: 31
# LARGEST: 24
# CHANGE delete: failures.append(error) -> failures.append(str(error))
# CHANGE batch: start = 48 -> start = {n}
# BEST: delete
# WORKS: delete, batch
import torch
from torch import nn

start = 48
failures = []


def make_model():
    blocks = []
    for inputs, outputs in [(3, 48), (48, 96), (96, 160)]:
        blocks += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.AvgPool2d(2)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 10)).cuda()


def attempt(model, batch_size):
    images = torch.rand(batch_size, 3, 192, 256, device="cuda")
    features = images
    outputs = []
    for layer in model:
        features = layer(features)
        outputs.append(features)
    features.logsumexp(1).mean().backward()


model = make_model()
batch_size = start
while batch_size >= 1:
    try:
        attempt(model, batch_size)
        break
    except torch.cuda.OutOfMemoryError as error:
        failures.append(error)
    if len(failures) == 4:
        raise failures[-1]
    batch_size = batch_size * 2 // 3
print("largest batch", batch_size, "after", [str(f)[:40] for f in failures])
