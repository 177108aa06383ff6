# ERROR: a variable has the traceback of an earlier attempt, to print it at the end
# ROOM: 250
# FIRST: `where` keeps the variables of work\(\), which has failed \(200\.00 MiB\)
# FITS-AFTER: where = sys.exc_info()[2] -> where = traceback.extract_tb(sys.exc_info()[2])
# FITS-AFTER: traceback.print_tb(where) -> traceback.print_list(where)
import sys
import traceback

import torch


def work(mib):
    made = torch.zeros(mib << 18, device="cuda")
    more = torch.zeros(mib << 18, device="cuda")
    return made, more, torch.zeros(mib << 18, device="cuda")  # request


where = None
try:
    work(100)
except torch.cuda.OutOfMemoryError:
    where = sys.exc_info()[2]
work(20)
traceback.print_tb(where)
