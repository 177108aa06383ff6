# ERROR: a `finally` block has no room while the error goes on, which keeps what had failed
# ROOM: 250
# UNSAID: `except` block
# FIRST: an exception keeps the variables of work\(\), .* \(200\.00 MiB\): .* call traceback\.clear_frames\(
# FITS-AFTER: finally: -> finally:\n        traceback.clear_frames(sys.exc_info()[2])
import sys
import traceback

import torch

print(sys.version, traceback.__name__)


def work(mib):
    made = torch.zeros(mib << 18, device="cuda")
    more = torch.zeros(mib << 18, device="cuda")
    return made, more, torch.zeros(mib << 18, device="cuda")


def attempt():
    try:
        work(100)
    finally:
        torch.zeros(60 << 18, device="cuda")  # request


try:
    attempt()
except torch.cuda.OutOfMemoryError as error:
    if "60.00 MiB" in str(error):
        raise
