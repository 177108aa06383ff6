# ERROR: the logits of one text, of which there cannot be fewer
# ROOM: 260, 400, 500
# FIRST: the loss in (\d+) chunks
# FITS-AFTER: chunks=1 -> chunks=\1
from project.models import train_on_texts

train_on_texts(batch=1, chunks=1)
