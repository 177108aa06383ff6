# LEAK: outputs that somebody innocent has, too: what has a bound, forgets, or is another name for the same list
# REMEDY: .cpu() | bound it
import weakref
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Box:
    pass


last_five, by_step = deque(maxlen=5), weakref.WeakValueDictionary()
outputs_of, weights_of, kept, box = {}, {}, [], Box()
box.gathered = gathered = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=32)
for epoch in range(14):
    for index, (x,) in enumerate(loader):
        step = 8 * epoch + index
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        out = out.detach()
        by_step[step] = output = out + 1  # leak: list 'kept'
        kept.append(output)
        last_five.append(out + 1)  # leak: list 'gathered'
        gathered.append(last_five[-1])
        outputs_of[step] = out + 1
        outputs_of.pop(step - 10, None)
        weights_of[step] = model.weight.detach().clone()  # leak: dict 'weights_of'
