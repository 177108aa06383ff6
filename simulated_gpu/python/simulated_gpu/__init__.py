"""A simulated CUDA machine for PyTorch: starts programs on it, and has the CPU compute their tensors' values there.

``environment`` and ``run`` start a program. ``gpu_choice`` and ``driver_options`` read what a command line asks for.
``gpu_models`` has the table of the GPUs that have a name. ``values`` is for the program's process.
"""

from .launcher import Output, SimulationError, SizeError, environment, libraries, parse_size, run, run_in
from .messages import Refused
from .modelled_machine import ModelledMachine
