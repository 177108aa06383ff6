# ERROR: A residual network on images of 224 by 224: the activations of 96 images.
# ROOM: 1360
# RUNS: training
# VERDICT: too_big
# REQUEST: 30
# LARGEST: 86
# CHANGE batch: BATCH_SIZE = 96 -> BATCH_SIZE = {n}
# CHANGE half: net = ResNet().to(device) -> net = ResNet().to(device)\ntorch.set_autocast_enabled("cuda", True)
# CHANGE checkpoint: x = stage(x) -> x = torch.utils.checkpoint.checkpoint(stage, x, use_reentrant=False)
# BEST: batch
# WORKS: batch, half
import torch
from torch import nn

BATCH_SIZE = 96
device = torch.device("cuda")


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2))
        sizes = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        self.stages = nn.ModuleList([Residual(*size) for size in sizes])
        self.fc = nn.Linear(512, 120)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


net = ResNet().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
for _ in range(2):
    images = torch.rand(BATCH_SIZE, 3, 224, 224).to(device)
    breeds = torch.randint(0, 120, (BATCH_SIZE,)).to(device)
    optimizer.zero_grad()
    loss = criterion(net(images), breeds)
    loss.backward()
    optimizer.step()
