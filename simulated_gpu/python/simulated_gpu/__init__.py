"""The simulated GPU as Python sees it: starting a program on it, and computing a tensor's values there.

``simulated_gpu.environment`` and ``simulated_gpu.run`` start a program; ``gpu_choice`` reads which GPU a command line
asks for, and ``gpu_models`` has the table of those that have a name. ``values`` are for that program's process.
"""
