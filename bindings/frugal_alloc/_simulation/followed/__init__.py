"""Running a program on the simulated GPU with somebody in it who follows its memory, for ``fit`` and ``check``.

The command ``runs`` the program. Once PyTorch is imported there, ``_common.startup`` calls ``start`` of the module that
the ``order`` names. What that finds out goes into a folder, as ``messages``.
"""
