# ERROR: where cells are typed in, Python keeps the error of the last one, and it what that had made
# ROOM: 250
# FIRST: traceback\.clear_frames\((\S+)\) frees 200\.00 MiB: it keeps the variables of work\(\)
# FITS-AFTER: print("next cell") -> traceback.clear_frames(\1)
import sys
import traceback

import torch

print(traceback.__name__)


def work(mib):
    made = torch.zeros(mib << 18, device="cuda")
    more = torch.zeros(mib << 18, device="cuda")
    return made, more, torch.zeros(mib << 18, device="cuda")  # request


def cell(mib):
    try:
        work(mib)
    except torch.cuda.OutOfMemoryError as error:
        if mib == 20:
            raise
        sys.last_value = ValueError()
        sys.last_value.__context__, sys.last_traceback = error, None


cell(100)
print("next cell")
cell(20)
