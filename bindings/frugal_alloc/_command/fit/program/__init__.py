"""What runs inside the program that ``frugal-alloc fit`` follows.

The ``agent`` starts with PyTorch. ``_program.loop`` tells it of passes and steps. It puts ``labels`` on memory, and
ends the program after enough steps. The command imports none of it.
"""
