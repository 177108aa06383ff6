"""The commands of ``frugal-alloc``. ``cli.main`` reads the command line; each other module is a command or part of one.

Imports from ``_check``, ``_common``, ``_fit``, ``_gpu_check``, ``_replay``, ``_report``, ``_simulation``, ``_switch``,
``_tensorflow`` and ``_top``. Nothing imports from this room but ``__main__``.
"""
