# ERROR: the logits of one text, of which there cannot be fewer
# ROOM: 260, 400, 500
# FIRST: the loss in (\d+) chunks
# FITS-AFTER: chunks=1 -> chunks=\1
# FIRST: logits = None before line \d+ of project/models\.py frees 128\.00 MiB
from project.models import train_on_texts

train_on_texts(batch=1, chunks=1)
