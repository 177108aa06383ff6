"""The simulated GPU as Python sees it: starting a program on it, and computing a tensor's values there.

``simulated_gpu.environment`` and ``simulated_gpu.run`` start a program. ``startup/`` and ``values/`` are loaded in that
program's process. Imports from ``_amounts``, ``_installation`` and ``_messages``.
"""
