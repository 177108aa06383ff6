"""Whether a program fits a GPU, by some steps of it on the simulated one: ``frugal-alloc fit``.

``fitting`` starts ``runs`` of the program with the agent in it (room ``program``). That leaves a ``process_record``
with ``places``, and a journal, whose texts are ``marks``. The command reads it into a ``recording``. ``breakdown``
finds the peaks, ``savings`` what changes would save, ``changes`` what to do, ``search`` the largest batch. All of it
meets in a ``verdict``, which room ``output`` writes.
"""
