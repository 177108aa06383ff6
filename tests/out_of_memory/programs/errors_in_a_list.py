# ERROR: a list of errors keeps what each of the failed attempts had made
# ROOM: 250
# FIRST: `errors` keeps the variables of work\(\), which has failed \(200\.00 MiB\): let go of it, keep str\(error\)
# FITS-AFTER: errors.append(error) -> errors.append(str(error))
import torch

errors = []


def work(mib):
    made = torch.zeros(mib << 18, device="cuda")
    more = torch.zeros(mib << 18, device="cuda")
    return made, more, torch.zeros(mib << 18, device="cuda")  # request


for mib in (100, 20):
    try:
        work(mib)
    except torch.cuda.OutOfMemoryError as error:
        errors.append(error)
        if mib == 20:
            raise
print(errors)
