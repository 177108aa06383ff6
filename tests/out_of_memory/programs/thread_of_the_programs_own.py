# ERROR: an error in a thread of the program's own is explained, too
# ROOM: 300
# VERDICT: too_big
# FIRST: this one tensor of 1\.00 GiB in 7 pieces
import threading

import torch


def work():
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")  # request


thread = threading.Thread(target=work)
thread.start()
thread.join()
