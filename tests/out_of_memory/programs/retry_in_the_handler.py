# ERROR: a second attempt has no room in the `except` block, whose exception keeps what the first one had made
# ROOM: 250
# SAYS: are there because the exception that is handled at \S+ keeps them
# FIRST: move line {again} of \S+ out of its `except` block, to run after it: this frees 200\.00 MiB, .* of work\(\)
# FITS-AFTER: return attempt(mib // 5) -> pass\n    return attempt(mib // 5)
import torch


def work(mib):
    made = torch.zeros(mib << 18, device="cuda")
    more = torch.zeros(mib << 18, device="cuda")
    return made, more, torch.zeros(mib << 18, device="cuda")  # request


def attempt(mib):
    try:
        return work(mib)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        if mib < 100:
            raise
        return attempt(mib // 5)  # again


attempt(100)
