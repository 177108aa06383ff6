"""Whether a program fits a GPU, by some steps of it on the simulated one: ``frugal-alloc fit``.

``fitting`` runs the program with the ``agent`` in it. That leaves a ``process_record`` with ``places``, and a journal.
The command reads it into a ``recording``. ``breakdown`` finds the peaks, ``changes`` what to do and what that saves,
``search`` the largest batch. All of it meets in a ``verdict``, which ``text`` and ``page`` write in one ``wording``.
"""
