# ERROR: A server keeps the keys and values of every conversation, of which it only needs the last few.
# ROOM: 2320
# RUNS: generation
# VERDICT: leak
# HOLDER: conversations
# REQUEST: 34
# CHANGE host: conversations[user] = past -> conversations[user] = past.cpu()
# CHANGE crop_cache: conversations[user] = past -> conversations[user] = past[:, :, :, :, -64:].clone()
# CHANGE delete: conversations[user] = past -> conversations[user] = past\n    conversations.pop(user - 4, None)
# CHANGE half: conversations[user] = past -> conversations[user] = past.half()
# BEST: delete
# WORKS: host, crop_cache, delete, half
import torch
from torch import nn

LAYERS, HEADS, HEAD_SIZE, VOCAB = 16, 16, 64, 32000
conversations = {}


class Assistant(nn.Module):
    def __init__(self):
        super().__init__()
        width = HEADS * HEAD_SIZE
        self.embed = nn.Embedding(VOCAB, width)
        self.project = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(LAYERS))

    def prefill(self, ids):
        x = self.embed(ids)
        layers = []
        for project in self.project:
            pair = project(x).view(*ids.shape, 2, HEADS, HEAD_SIZE)
            layers.append(pair.permute(2, 0, 3, 1, 4))
            x = x + pair.flatten(3)[:, :, 0]
        return torch.stack(layers)


@torch.inference_mode()
def serve(assistant, user, prompt):
    ids = prompt.unsqueeze(0).cuda()
    past = assistant.prefill(ids)
    conversations[user] = past
    return past.shape


assistant = Assistant().cuda().eval()
for user in range(36):
    prompt = torch.randint(0, VOCAB, (700 + 23 * (user % 7),))
    serve(assistant, user, prompt)
print(len(conversations), "conversations")
