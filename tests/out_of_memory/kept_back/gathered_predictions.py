# ERROR: Predictions of a whole test set are gathered in a list on the GPU: masks at full size, image after image.
# ROOM: 380
# RUNS: evaluation
# VERDICT: leak
# HOLDER: predictions
# REQUEST: 32
# CHANGE host: predictions.append(probabilities) -> predictions.append(probabilities.cpu())
# CHANGE half: predictions.append(probabilities) -> predictions.append(probabilities.half())
# BEST: host
# WORKS: host, half
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 19
images = torch.rand(44, 3, 320, 384)
masks = torch.randint(0, CLASSES, (44, 320, 384), dtype=torch.uint8)
loader = DataLoader(TensorDataset(images, masks), batch_size=4)
segmenter = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(32, 32, 3, padding=2, dilation=2),
    nn.ReLU(),
    nn.Conv2d(32, CLASSES, 1),
)
segmenter = segmenter.cuda().eval()

predictions = []
targets = []
with torch.no_grad():
    for image, mask in loader:
        probabilities = segmenter(image.cuda()).softmax(1)
        predictions.append(probabilities)
        targets.append(mask)

right = [(p.argmax(1).cpu() == t).float().mean() for p, t in zip(predictions, targets, strict=True)]
print("pixel accuracy", torch.stack(right).mean().item())
