"""What runs inside the program that ``frugal-alloc fit`` follows.

``startup`` starts the ``agent``, which ``_program.loop`` tells of passes and steps. It puts ``labels`` on memory, waits
for ``collectives``' buffers, and ends the program at its ``step_limit``. The command imports none of it.

Imports from ``_fit``, ``_native``, ``_program``, ``_report`` and ``_tracking``.
"""
