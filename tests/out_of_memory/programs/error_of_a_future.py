# ERROR: the future of a failed call is kept, with its error and what the call had made
# ROOM: 250
# FIRST: `future` keeps the variables of work\(\), which has failed \(200\.00 MiB\)
# FITS-AFTER: attempt(20) -> future = None; attempt(20)
import concurrent.futures

import torch


def work(mib):
    made = torch.zeros(mib << 18, device="cuda")
    more = torch.zeros(mib << 18, device="cuda")
    return made, more, torch.zeros(mib << 18, device="cuda")  # request


def attempt(mib):
    return future is None or work(mib)


with concurrent.futures.ThreadPoolExecutor(1) as threads:
    future = threads.submit(work, 100)
    future.exception()
attempt(20)
