"""Whether a program fits a GPU, by some steps of it on the simulated one: ``frugal-alloc fit``.

Inside the program: ``agent``, which ``startup`` starts by its ``orders``, with ``phase_marks``, ``labels``,
``step_limit`` and ``collectives``; it leaves a ``process_record`` with ``places`` and a journal. In the command:
``fitting`` starts ``runs`` and reads the journal into ``allocations``, by ``phases`` and ``components``; ``breakdown``
finds the peaks, ``needs`` the smallest GPU, ``changes`` what to do, ``search`` the largest batch. All of it meets in a
``verdict``, which ``text``, ``page`` and ``document`` write.

Imports from ``_amounts``, ``_installation``, ``_messages``, ``_native``, ``_pages``, ``_program``, ``_replay``,
``_report``, ``_simulation`` and ``_tracking``.
"""
