# ERROR: The validation after an epoch has no no_grad: its batch is four times the one of training, as without graph.
# ROOM: 3090
# RUNS: evaluation
# VERDICT: too_big
# REQUEST: 38
# LARGEST: 180
# CHANGE no_grad: def validate(net): -> @torch.no_grad()\ndef validate(net):
# CHANGE fewer: VALID_BATCH = 256 -> VALID_BATCH = {n}
# CHANGE half: net.eval() -> net.eval()\n    torch.set_autocast_enabled("cuda", True)
# BEST: no_grad
# WORKS: no_grad, fewer, half
import torch
from torch import nn

TRAIN_BATCH = 64
VALID_BATCH = 256


def conv(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))


def train(net, optimizer):
    net.train()
    for _ in range(3):
        images, labels = torch.rand(TRAIN_BATCH, 3, 112, 112).cuda(), torch.randint(0, 37, (TRAIN_BATCH,)).cuda()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()


def validate(net):
    net.eval()
    correct = 0
    for _ in range(2):
        images, labels = torch.rand(VALID_BATCH, 3, 112, 112).cuda(), torch.randint(0, 37, (VALID_BATCH,)).cuda()
        outputs = net(images)
        correct += (outputs.argmax(1) == labels).sum().item()
    return correct / (2 * VALID_BATCH)


net = nn.Sequential(conv(3, 32), conv(32, 64), conv(64, 160), conv(160, 320), nn.Flatten(), nn.Linear(320 * 49, 37))
net = net.cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
train(net, optimizer)
print("accuracy", validate(net))
