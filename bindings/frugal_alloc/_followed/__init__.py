"""Running a program on the simulated GPU with somebody in it who follows its memory, for ``fit`` and ``check``.

The command ``runs`` the program. ``startup`` is on its path: once PyTorch is imported, that calls ``start`` of the
module that the ``order`` names. What that finds out goes into a folder, as ``messages``.

Imports from ``_simulation``.
"""
