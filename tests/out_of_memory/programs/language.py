# ERROR: the logits of a language model, for a batch of texts
# ROOM: 500, 900, 1500, 2500, 3500, 4000, 4200
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch=8 -> batch=\1
# FIRST: the loss in (\d+) chunks
# FITS-AFTER: chunks=1 -> chunks=\1
# FIRST: logits = None before line \d+ of project/models\.py frees 1\.00 GiB
from project.models import train_on_texts

train_on_texts(batch=8, chunks=1)
