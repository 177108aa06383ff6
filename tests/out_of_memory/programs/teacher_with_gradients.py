# ERROR: a teacher that no optimizer trains records gradients
# ROOM: 150, 200, 250, 300
# FIRST: call `?\w+`?.* under torch\.no_grad\(\)
# FITS-AFTER: torch.enable_grad() -> torch.no_grad()
import torch
from project.models import WIDTH, layers, optimizer_of

teacher, student = layers(8).cuda(), layers(1).cuda()
optimizer = optimizer_of(student, "SGD")
for _ in range(2):
    values = torch.zeros(4096, WIDTH, device="cuda")
    with torch.enable_grad():
        wanted = teacher(values)
    loss = (student(values) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
