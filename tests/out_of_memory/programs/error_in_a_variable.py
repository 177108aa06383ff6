# ERROR: a variable has the error of an earlier attempt, which nothing reads any more
# ROOM: 250
# FIRST: del failure before line {again} of \S+ frees 200\.00 MiB
# FITS-AFTER: as told
import torch


def work(mib):
    made = torch.zeros(mib << 18, device="cuda")
    more = torch.zeros(mib << 18, device="cuda")
    return made, more, torch.zeros(mib << 18, device="cuda")


def main():
    failure = None
    try:
        work(100)
    except torch.cuda.OutOfMemoryError as error:
        failure = error
    print(failure)
    work(20)  # again


main()
