# ERROR: an object has the error of an earlier attempt, and the handler is left
# ROOM: 250
# FIRST: `self.error` keeps the variables of work\(\), which has failed \(200\.00 MiB\): set it to None
# FITS-AFTER: self.error = error -> self.error = str(error)
import torch


class Runner:
    error = None

    def work(self, mib):
        made = torch.zeros(mib << 18, device="cuda")
        more = torch.zeros(mib << 18, device="cuda")
        return made, more, torch.zeros(mib << 18, device="cuda")  # request

    def attempt(self, mib):
        try:
            return self.work(mib)
        except torch.cuda.OutOfMemoryError as error:
            self.error = error


runner = Runner()
runner.attempt(100)
runner.work(20)
print(runner.error)
