"""``frugal-alloc check``: the GPU memory of tests, and of programs, compared with what it was.

The command (``runs``) has a program run on the simulated GPU, where ``recorder`` follows
the journal of PyTorch's allocator, and ``pytest_watch`` says where tests begin and end; what each took (``figures``, by
``ledger``) goes into a folder. ``comparison`` holds it against the ``baseline``, and ``told`` writes it for people.

Imports from ``_common``, ``_native``, ``_program``, ``_simulation`` and ``_tracking``.
"""
