"""``frugal-alloc check``: the GPU memory of tests, and of programs, compared with what it was.

The command ``runs`` a program on the simulated GPU with ``recorder`` in it. That follows the journal of PyTorch's
allocator into a ``ledger``, and ``pytest_watch`` tells it where tests begin and end; what each took is sent to the
command. ``comparison`` holds it against the ``baseline``.
"""
