"""The commands of ``frugal-alloc``. ``cli.main`` reads the command line; each other module is a command or part of one.

Imports from ``_amounts``, ``_arguments``, ``_check``, ``_fit``, ``_gpu_check``, ``_installation``, ``_messages``,
``_recorded_files``, ``_replay``, ``_report``, ``_settings``, ``_simulation``, ``_startup``, ``_tensorflow``, ``_top``
and ``_whole_files``. Nothing imports from this room but ``__main__``.
"""
