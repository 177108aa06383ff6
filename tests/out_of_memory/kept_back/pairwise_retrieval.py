# ERROR: The metric of a retrieval model: distances of all 19000 queries to all 26500 images at once.
# ROOM: 1250
# RUNS: evaluation
# VERDICT: too_big
# REQUEST: 23
# CHANGE pieces: CHUNKS = 1 -> CHUNKS = {n}
# CHANGE host: queries = torch.cat(queries) -> queries, gallery = torch.cat(queries).cpu(), gallery.cpu()
# BEST: pieces
# WORKS: pieces, host
import torch
from torch import nn

QUERIES = 19000
GALLERY = 26500
CHUNKS = 1

embed = nn.Sequential(nn.Linear(900, 512), nn.ReLU(), nn.Linear(512, 256)).cuda().eval()


def recall_at_5(queries, gallery, answers):
    hits = 0
    for part, answer in zip(queries.chunk(CHUNKS), answers.chunk(CHUNKS), strict=True):
        distances = torch.cdist(part, gallery)
        nearest = distances.topk(5, largest=False).indices
        hits += (nearest.cpu() == answer[:, None]).any(1).sum().item()
    return hits / len(queries)


@torch.no_grad()
def evaluate():
    gallery = torch.cat([embed(torch.randn(2650, 900).cuda()) for _ in range(10)])
    queries = [embed(torch.randn(1900, 900).cuda()) for _ in range(10)]
    queries = torch.cat(queries)
    answers = torch.randint(0, GALLERY, (QUERIES,))
    return recall_at_5(queries, gallery, answers)


print("recall", evaluate())
