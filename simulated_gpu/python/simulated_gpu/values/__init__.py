"""What PyTorch gets in a program on the simulated GPU, once it has been imported: the values of its tensors.

The simulated memory is host memory at the very addresses that PyTorch sees, and kernels do nothing there, so the CPU
can compute in it: all operators with FRUGAL_SIM_VALUES=cpu (``every_operator``), those on small tensors otherwise
(``small_tensors``). Where a value that nobody has computed would decide over a size or over going on, an answer is made
up (``plausible``). With FRUGAL_SIM_ORDER=1 or FRUGAL_SIM_LATE=1 operators also declare what memory they touch
(``accesses``). NVRTC finds its builtins, which PyTorch sees to only with CUDA's own runtime.

Loaded by its path, under another name, in processes that may not find the package around it: so it imports nothing of
that.
"""

from __future__ import annotations

import os
import sys

from . import nvrtc_files


def start() -> None:
    """From here on, operators of this process on CUDA tensors have the values that it asks for; needs torch."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["torch"].__file__)))
    for library in nvrtc_files.find([packages]):
        nvrtc_files.load_builtins(library)
    if os.environ.get("FRUGAL_SIM_VALUES") == "cpu":
        from . import every_operator

        every_operator.start()
    else:
        from . import plausible

        plausible.start()
        # Late work moves bytes when its time has come, and without a backing there are none: memory says nothing yet.
        if os.environ.get("FRUGAL_SIM_LATE") != "1" and os.environ.get("FRUGAL_SIM_BACKING") != "none":
            from . import small_tensors

            small_tensors.start()
    if "1" in (os.environ.get("FRUGAL_SIM_ORDER"), os.environ.get("FRUGAL_SIM_LATE")):
        from . import accesses

        # Last, so that it sees what the program calls rather than what the values take.
        accesses.start()
