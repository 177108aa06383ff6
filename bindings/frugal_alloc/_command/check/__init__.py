"""``frugal-alloc check``: the GPU memory of tests, and of programs, compared with what it was.

The command (``runs``) has a program run on the simulated GPU, with ``recorder`` in it. That follows the journal of
PyTorch's allocator, and ``pytest_watch`` says where tests begin and end; what each took (``figures``, by ``ledger``) is
sent to the command. ``comparison`` holds it against the ``baseline``, and ``wording`` says it to people.
"""
