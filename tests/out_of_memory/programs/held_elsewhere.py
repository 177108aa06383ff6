# ERROR: nothing is freed by deleting what an object, autograd, a closure or the rest of the function holds, too
# ROOM: 550
# UNSAID: del |= None
import torch


class Holder:
    pass


def main():
    scale = torch.ones(1, device="cuda", requires_grad=True)
    holder = Holder()
    aliased, saved, closed, read = (torch.zeros(25 << 20, device="cuda") for _ in range(4))
    holder.same = aliased
    result = saved * scale

    def later():
        return closed

    other = torch.zeros(25 << 20, device="cuda")  # request
    return holder, result, later, read, other


main()
