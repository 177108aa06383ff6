"""What runs inside the program that ``frugal-alloc fit`` follows.

The ``agent`` starts with PyTorch. ``_program.loop`` tells it of passes and steps. It puts ``labels`` on memory, and
ends the program after enough steps. The command imports none of it.

Imports from ``_fit``, ``_followed``, ``_native``, ``_program``, ``_report`` and ``_tracking``.
"""
