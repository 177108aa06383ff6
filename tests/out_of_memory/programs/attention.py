# ERROR: attention as an evaluation computes it: 16 MiB of scores for each row, as much of weights, 1 MiB of queries
# ROOM: 300, 450, 500
# FIRST: fewer at a time: with 16 at once each takes (?:33|34)\.\d\d MiB, .* (\d+) would fit
# FITS-AFTER: rows = 16 -> rows = \1
# THEN: this one tensor of 256\.00 MiB in 2 pieces .*a piece takes 128\.00 MiB
# FITS-AFTER: pieces = 1 -> pieces = 2
# THEN: half precision \(autocast\).* 27\d\.\d\d MiB of tensors at work are in single precision
# FITS-AFTER: torch.float32 -> torch.bfloat16
# UNSAID: no_grad
import torch

rows = 16
pieces = 1
dtype = torch.float32
with torch.no_grad():
    queries = torch.zeros(rows, 4, 1024, 64, device="cuda", dtype=dtype)
    for part in queries.chunk(pieces):
        scores = part @ part.transpose(-1, -2)
        weights = scores.softmax(-1)
        del scores, weights
