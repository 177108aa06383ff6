# ERROR: Distillation: the teacher's forward pass keeps its graph, though only the student is trained.
# ROOM: 1630
# RUNS: training
# VERDICT: too_big
# REQUEST: 40
# LARGEST: 31
# CHANGE no_grad: wanted = teacher(images) -> with torch.no_grad():\n        wanted = teacher(images)
# CHANGE batch: BATCH = 56 -> BATCH = {n}
# CHANGE half: student.train() -> student.train()\ntorch.set_autocast_enabled("cuda", True)
# BEST: no_grad
# WORKS: no_grad, batch, half
import torch
import torch.nn.functional as F
from torch import nn

BATCH = 56
TEMPERATURE = 4.0


def network(width, depth):
    layers = [nn.Conv2d(3, width, 4, 4)]
    for _ in range(depth):
        layers += [
            nn.Conv2d(width, width, 7, padding=3, groups=width),
            nn.BatchNorm2d(width),
            nn.Conv2d(width, 3 * width, 1),
            nn.GELU(),
            nn.Conv2d(3 * width, width, 1),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 200)).cuda()


teacher = network(128, 6).eval()
student = network(48, 3)
student.train()
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
for _ in range(2):
    images = torch.rand(BATCH, 3, 160, 160).cuda()
    labels = torch.randint(0, 200, (BATCH,)).cuda()
    wanted = teacher(images)
    scores = student(images)
    soft = F.kl_div(
        scores.div(TEMPERATURE).log_softmax(1),
        wanted.div(TEMPERATURE).softmax(1),
        reduction="batchmean",
    )
    loss = 0.9 * soft + 0.1 * F.cross_entropy(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
