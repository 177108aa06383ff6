# ERROR: a tensor is made long before it is used
# ROOM: 270, 320
# FIRST: `helper` .* is not needed while line \d+ .* make it afterwards
# FITS-AFTER: helper_first = True -> helper_first = False
import torch
from project.models import WIDTH, layers

helper_first = True
model = layers().cuda()
helper = torch.zeros(50 << 20, device="cuda") if helper_first else None
result = model(torch.zeros(2048, WIDTH, device="cuda")).square().mean()
result.backward()
if helper is None:
    helper = torch.zeros(50 << 20, device="cuda")
print(helper.shape)
